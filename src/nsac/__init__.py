"""Calibrated predictions for tables and irregularly sampled time series with missing values."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsac import core as core
    from nsac import uncertainty as uncertainty
    from nsac.estimators import NSACForecaster as NSACForecaster
    from nsac.estimators import NSACRegressor as NSACRegressor
    from nsac.estimators import load as load
    from nsac.explain.explanation import explain as explain
    from nsac.layers import NAC as NAC
    from nsac.layers import NSAC as NSAC
    from nsac.layers import NSACLoss as NSACLoss
    from nsac.methods import METHODS as METHODS
    from nsac.uncertainty import Prediction as Prediction

__version__ = "0.1.0"
__all__ = [
    "METHODS", "NAC", "NSAC", "NSACForecaster", "NSACLoss", "NSACRegressor", "Prediction", "core", "explain", "load",
    "uncertainty",
]  # fmt: skip

_MODULES = {
    "METHODS": "methods", "NAC": "layers", "NSAC": "layers", "NSACLoss": "layers", "NSACForecaster": "estimators",
    "NSACRegressor": "estimators", "Prediction": "uncertainty", "load": "estimators",
}  # fmt: skip


def __getattr__(name: str):
    """Import a name on first use: torch and scikit-learn take seconds to import, and `nsac --help` needs neither."""
    if name in ("core", "explain", "uncertainty"):
        return import_module(f"nsac.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'nsac' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"nsac.{_MODULES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
