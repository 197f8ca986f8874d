"""Predictions with trustworthy uncertainty from irregular, holey data."""

from nsac import core as core
from nsac import uncertainty as uncertainty
from nsac.layers import NAC as NAC
from nsac.layers import NSAC as NSAC
from nsac.layers import NSACLoss as NSACLoss
from nsac.methods import METHODS as METHODS
from nsac.uncertainty import Prediction as Prediction

__version__ = "0.1.0.dev0"
__all__ = ["METHODS", "NAC", "NSAC", "NSACLoss", "Prediction", "core", "uncertainty"]
