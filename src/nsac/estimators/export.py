"""Fitted estimators as graphs that run without this library: `torch.export`, and ONNX.

A graph takes inputs in their own unit and the noise, and returns calibrated predictions in the unit of the target. It
contains the modules that the estimator runs: scaling, members, their mixture, calibration and conformal margins.
"""

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
from nsac.estimators.description import describe
from nsac.estimators.graph import make_graph

DETERMINISTIC_METHODS = ("gmle", "de", "mean", "ridge")
"""Methods, besides "nsac", that can be exported: their predictions have no noise."""
METADATA = "nsac"
"""Key of the description in the metadata of an ONNX file."""
MIN_DRAWS = 3
"""Fewest draws of the noise that a graph takes."""


class ExportError(ValueError):
    """An estimator that cannot be exported. The message contains the remedy."""


def export_program(estimator: AbstractEstimator, coverage: float = 0.9) -> torch.export.ExportedProgram:
    """The estimator as a `torch.export` program; inputs and outputs are those that `export_onnx` describes."""
    _check(estimator, coverage)
    with single_threaded(), torch.no_grad():
        graph, inputs = make_graph(estimator, coverage)
        rows, draws = torch.export.Dim("rows"), torch.export.Dim("draws", min=MIN_DRAWS)
        dynamic = {name: {0: draws if name == "noise" else rows} for name in inputs}
        return torch.export.export(graph, (), inputs, dynamic_shapes=dynamic, strict=False)


def export_onnx(
    estimator: AbstractEstimator, path: str | os.PathLike, coverage: float = 0.9, targets: list[str] | None = None
) -> dict[str, Any]:
    """Write the estimator as one ONNX file that needs numpy and an ONNX runtime, and nothing else.

    Inputs, with any number of rows:

    - `x`, float64, in its own unit, NaN where a value is missing. Regressors: (rows, numeric columns). Forecasters:
      (rows, lookback, columns), regular steps, the target first; for irregularly sampled series also the distance of
      each observation from its step, in steps.
    - `c`, int64, (rows, categorical columns), codes from 1 on, 0 where missing or unknown; if there are categories.
    - `time`, float64, (rows,), seconds since 1970 in local time at the last step; if a forecaster uses a calendar.
    - `noise`, float32, (draws, queries, topk, heads), standard normal; if the method is stochastic.

    Outputs, float64, (rows, targets) or (rows, horizon): `mean`, `aleatoric`, `epistemic` (variances), and the ends of
    the conformal interval, for instance `lower_90` and `upper_90`. A row of a table with a value missing where none was
    missing in training gets NaN, and so does a window without any value of the target.

    Args:
        estimator: a fitted one.
        path: where to write.
        coverage: of the interval.
        targets: names of the outputs, for the description.

    Returns:
        The description, which the file's metadata holds as JSON under `"nsac"`: columns with their categories, outputs,
        and the noise with which this library predicts (base64, little-endian float32).
    """
    try:
        import onnx_ir
        import onnxscript  # noqa: F401
    except ImportError:
        raise ExportError("Export to ONNX needs onnx and onnxscript. Run `pip install 'nsac[export]'`.") from None
    program = export_program(estimator, coverage)
    facts = describe(estimator, coverage, targets)
    names = ["mean", "aleatoric", "epistemic", f"lower_{100 * coverage:g}", f"upper_{100 * coverage:g}"]
    with single_threaded(), _quiet():
        written = torch.onnx.export(program, dynamo=True, verbose=False)
    assert written is not None
    graph = written.model.graph
    values = [value for node in graph for value in node.outputs]
    for i, value in enumerate(values):
        value.name = f"v{i}"  # names of the trace may be those of outputs
    for value, name in zip(graph.outputs, names, strict=True):
        value.name = name
    written.model.metadata_props[METADATA] = json.dumps(facts)
    write_atomic(path, onnx_ir.to_proto(written.model).SerializeToString())
    return facts


def program_bytes(program: torch.export.ExportedProgram) -> bytes:
    """Content of a `.pt2` file, for `torch.export.load`."""
    content = io.BytesIO()
    with _quiet():
        torch.export.save(program, content)
    return content.getvalue()


def _check(estimator: AbstractEstimator, coverage: float) -> None:
    check_probability("coverage", coverage)
    check_is_fitted(estimator)
    if estimator.method != "nsac" and estimator.method not in DETERMINISTIC_METHODS:
        raise ExportError(
            f"`method` must be one of nsac, {', '.join(DETERMINISTIC_METHODS)} to be exported. Got "
            f"{estimator.method!r} instead. Fit with one of those."
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
