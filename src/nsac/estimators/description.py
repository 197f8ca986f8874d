"""The description of an exported estimator: what a program needs to feed the graph."""

import base64
from typing import Any

from nsac.estimators.base import AbstractEstimator
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.graph import prediction_noise
from nsac.estimators.regressor import NSACRegressor


def describe(estimator: AbstractEstimator, coverage: float = 0.9, targets: list[str] | None = None) -> dict[str, Any]:
    """Columns, targets, and the noise with which this library predicts, as plain values."""
    facts: dict[str, Any] = {"class": type(estimator).__name__, "method": estimator.method, "coverage": coverage}
    if isinstance(estimator, NSACRegressor):
        facts["columns"] = _table_columns(estimator)
        facts["targets"] = targets or [f"y{i}" for i in range(len(estimator.centre_))]
    if isinstance(estimator, NSACForecaster):
        columns = estimator.columns_
        inputs = list(columns.inputs)
        if estimator.irregular_:
            inputs.append("offset")
        seconds = estimator.step_ / 1e9 if isinstance(estimator.step_, int) else estimator.step_
        facts["columns"] = [{"name": name, "input": "x", "place": i} for i, name in enumerate(inputs)]
        facts |= {"targets": [columns.target], "lookback": estimator.lookback, "horizon": estimator.horizon}
        facts |= {"step": seconds, "cycles": list(estimator.cycles_)}
    noise = prediction_noise(estimator)
    if noise is not None:
        content = noise.numpy().astype("<f4").tobytes()
        facts["noise"] = {"shape": list(noise.shape), "data": base64.b64encode(content).decode()}
    return facts


def _table_columns(estimator: NSACRegressor) -> list[dict[str, Any]]:
    """In the order of the training table: name, input and place there, categories by code (`levels`), `missing`."""
    columns, described, place = estimator.columns_, [], {"x": 0, "c": 0}
    for i, name in enumerate(columns.names):
        kind = "c" if i in columns.categories else "x"
        missing = bool(estimator.imputer_.learned[kind][place[kind]])
        column: dict[str, Any] = {"name": name, "input": kind, "place": place[kind], "missing": missing}
        if kind == "c":
            column["levels"] = list(columns.categories[i])
        described.append(column)
        place[kind] += 1
    return described
