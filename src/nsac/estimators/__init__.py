"""Estimators for tables and series with the interface of scikit-learn, and model folders."""

from typing import TYPE_CHECKING

from nsac.estimators.files import CLASSES, import_class
from nsac.estimators.files import ModelError as ModelError
from nsac.estimators.files import load as load

if TYPE_CHECKING:
    from nsac.estimators.forecaster import NSACForecaster as NSACForecaster
    from nsac.estimators.regressor import NSACRegressor as NSACRegressor


def __getattr__(name: str):
    """The estimators, imported on first use."""
    if name in CLASSES:
        return import_class(name)
    raise AttributeError(f"module 'nsac.estimators' has no attribute {name!r}")
