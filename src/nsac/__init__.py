"""Predictions with trustworthy uncertainty from irregular, holey data."""

from typing import TYPE_CHECKING

from nsac import core as core
from nsac import uncertainty as uncertainty
from nsac.estimators.files import load as load
from nsac.layers import NAC as NAC
from nsac.layers import NSAC as NSAC
from nsac.layers import NSACLoss as NSACLoss
from nsac.methods import METHODS as METHODS
from nsac.uncertainty import Prediction as Prediction

if TYPE_CHECKING:
    from nsac.estimators import NSACForecaster as NSACForecaster
    from nsac.estimators import NSACRegressor as NSACRegressor

__version__ = "0.1.0.dev0"
__all__ = [
    "METHODS", "NAC", "NSAC", "NSACForecaster", "NSACLoss", "NSACRegressor", "Prediction", "core", "load", "uncertainty"
]  # fmt: skip


def __getattr__(name: str):
    """The estimators, when they are asked for: scikit-learn takes a second to import."""
    if name in ("NSACForecaster", "NSACRegressor"):
        from nsac import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'nsac' has no attribute {name!r}")
