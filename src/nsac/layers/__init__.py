"""Layers: NSAC, NAC, their attention, and the training objective."""

from nsac.layers.attention import Attention as Attention
from nsac.layers.inputs import Inputs as Inputs
from nsac.layers.loss import NSACLoss as NSACLoss
from nsac.layers.nac import NAC as NAC
from nsac.layers.novelty import Novelty as Novelty
from nsac.layers.nsac import NSAC as NSAC
from nsac.layers.nsac import Draws as Draws
from nsac.layers.reader import LinearReader as LinearReader
