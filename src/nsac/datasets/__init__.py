"""Data: generated, or parsed from real files."""

from nsac.datasets.spiral import Spirals as Spirals
from nsac.datasets.spiral import make_spirals as make_spirals
