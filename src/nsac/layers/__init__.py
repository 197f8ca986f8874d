"""The public layers."""

from nsac.layers.attention import Attention as Attention
from nsac.layers.loss import NSACLoss as NSACLoss
from nsac.layers.nac import NAC as NAC
from nsac.layers.nsac import NSAC as NSAC
from nsac.layers.nsac import Draws as Draws
