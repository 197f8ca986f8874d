"""The common style of all plots."""

from typing import Any

BLUE, ORANGE, GREEN, PURPLE, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6E6E6E", "#222222"
"""Colours that colour-blind readers can distinguish (Okabe and Ito, 2008), and two greys."""
PALE_BLUE, PALE_ORANGE, PAPER = "#BFD9EA", "#F3C9A8", "#F4F1EC"
"""For bands and backgrounds."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "savefig.dpi": 150,
}
"""For `matplotlib.rc_context`."""
