"""Fitted estimators as graphs that run without this library: `torch.export`, and ONNX.

A graph takes inputs in their own unit and the noise, and returns calibrated predictions in the unit of the target. It
contains the modules that the estimator runs: scaling, members, their mixture, calibration and conformal margins.
"""

import base64
import contextlib
import io
import json
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted

from nsac._checks import check_probability
from nsac._io import write_atomic
from nsac._torch import single_threaded
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.graph import check_exportable, make_graph, prediction_noise
from nsac.estimators.onnx_model import input_axes, to_onnx, trace
from nsac.estimators.regressor import NSACRegressor

METHODS = ("nsac", "gmle", "de", "mean", "ridge")  # can be exported; all but the first predict without noise
METADATA = "nsac"  # key of the description in the metadata of an ONNX file


class ExportError(ValueError):
    """An estimator that cannot be exported. The message contains the remedy."""


def export_program(estimator: AbstractEstimator, coverage: float = 0.9) -> torch.export.ExportedProgram:
    """The estimator as a `torch.export` program; inputs and outputs are those that `export_onnx` describes."""
    _check(estimator, coverage)
    with single_threaded(), torch.no_grad():
        graph, inputs = make_graph(estimator, coverage)
        return trace(graph, inputs, input_axes(inputs))


def export_onnx(
    estimator: AbstractEstimator, path: str | os.PathLike, coverage: float = 0.9, targets: list[str] | None = None
) -> dict[str, Any]:
    """Write the estimator as one ONNX file that needs numpy and an ONNX runtime, and nothing else.

    Inputs, with any number of rows, are `x` in its own unit, NaN where a value is missing (float64; for forecasters the
    target first, and the offsets from the steps last if the series is irregularly sampled), and where they apply codes
    of categories `c` (int64), `time` (float64) and `noise` (float32). Outputs are `mean`, `aleatoric`, `epistemic` and
    interval ends such as `lower_90` (float64). See docs/export.md for shapes and for what gives NaN.

    Returns:
        The description, which the file's metadata holds as JSON under `"nsac"`: columns with their categories, outputs
        (named `targets`), and the noise with which this library predicts (base64, little-endian float32).
    """
    try:
        import onnx_ir
        import onnxscript  # noqa: F401
    except ImportError:
        raise ExportError("Export to ONNX needs onnx and onnxscript. Run `pip install 'nsac[export]'`.") from None
    _check(estimator, coverage)
    facts = describe(estimator, coverage, targets)
    names = ["mean", "aleatoric", "epistemic", f"lower_{100 * coverage:g}", f"upper_{100 * coverage:g}"]
    graph, inputs = make_graph(estimator, coverage)
    with single_threaded(), torch.no_grad(), _quiet():
        model = to_onnx(graph, inputs)
    for i, value in enumerate([value for node in model.graph for value in node.outputs]):
        value.name = f"v{i}"  # names of the trace may be those of outputs
    for value, name in zip(model.graph.outputs, names, strict=True):
        value.name = name
    model.metadata_props[METADATA] = json.dumps(facts)
    write_atomic(path, onnx_ir.to_proto(model).SerializeToString())
    return facts


def program_bytes(program: torch.export.ExportedProgram) -> bytes:
    """Content of a `.pt2` file, for `torch.export.load`."""
    content = io.BytesIO()
    with _quiet():
        torch.export.save(program, content)
    return content.getvalue()


def describe(estimator: AbstractEstimator, coverage: float = 0.9, targets: list[str] | None = None) -> dict[str, Any]:
    """Columns, targets, and the noise with which this library predicts, as plain values."""
    facts: dict[str, Any] = {"class": type(estimator).__name__, "method": estimator.method, "coverage": coverage}
    if isinstance(estimator, NSACRegressor):
        facts["columns"] = _table_columns(estimator)
        facts["targets"] = targets or [f"y{i}" for i in range(len(estimator.centre_))]
    if isinstance(estimator, NSACForecaster):
        check_exportable(estimator)
        inputs = [*estimator.columns_.inputs, "offset"] if estimator.irregular_ else estimator.columns_.inputs
        axis = estimator.preprocessor_.axis
        dated = isinstance(axis.step, int) or axis.calendar is not None
        seconds = axis.mean_step / 1e9 if dated else axis.step
        facts["columns"] = [{"name": name, "input": "x", "place": i} for i, name in enumerate(inputs)]
        facts |= {"targets": [estimator.columns_.target], "step": seconds, "cycles": list(estimator.cycles_)}
        facts |= {"lookback": estimator.lookback_, "horizon": estimator.horizon_}
    noise = prediction_noise(estimator)
    if noise is not None:
        content = noise.numpy().astype("<f4").tobytes()
        facts["noise"] = {"shape": list(noise.shape), "data": base64.b64encode(content).decode()}
    return facts


def _table_columns(estimator: NSACRegressor) -> list[dict[str, Any]]:
    """In the order of the training table: name, input and place there, categories by code (`levels`), `missing`.

    A date has one entry per feature: `feature` is its name, and days are counted from `first`.
    """
    columns, described, place = estimator.columns_, [], {"x": 0, "c": 0}
    for i, name in enumerate(columns.names):
        kind, details = "x", [{}]
        if i in columns.categories:
            kind, details = "c", [{"levels": list(columns.categories[i])}]
        if i in columns.dates:
            date = columns.dates[i]
            details = [{"feature": feature, "first": date.first} for feature in date.names]
        for detail in details:
            missing = bool(estimator.imputer_.learned[kind][place[kind]])
            described.append({"name": name, "input": kind, "place": place[kind], "missing": missing, **detail})
            place[kind] += 1
    return described


def _check(estimator: AbstractEstimator, coverage: float) -> None:
    check_probability("coverage", coverage)
    check_is_fitted(estimator)
    if estimator.method not in METHODS:
        raise ExportError(
            f"`method` must be one of {', '.join(METHODS)} to be exported. Got {estimator.method!r} instead. Fit with "
            "one of those."
        )
    for member in estimator.members_:
        novelty = getattr(member, "novelty", None)
        if novelty is not None and not bool(torch.isfinite(novelty.log_amplitude)):
            raise ExportError("Training is not finished: the amplitude of the epistemic variance is unset. Fit again.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the messages of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
