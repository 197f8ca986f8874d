"""Estimators for tables and series with the interface of scikit-learn, and model folders."""

from typing import TYPE_CHECKING

from nsac.estimators.files import ModelError as ModelError
from nsac.estimators.files import load as load

if TYPE_CHECKING:
    from nsac.estimators.forecaster import NSACForecaster as NSACForecaster
    from nsac.estimators.regressor import NSACRegressor as NSACRegressor


def __getattr__(name: str):
    """The estimators, imported on first use: scikit-learn takes a second to import."""
    if name == "NSACForecaster":
        from nsac.estimators.forecaster import NSACForecaster

        return NSACForecaster
    if name == "NSACRegressor":
        from nsac.estimators.regressor import NSACRegressor

        return NSACRegressor
    raise AttributeError(f"module 'nsac.estimators' has no attribute {name!r}")
