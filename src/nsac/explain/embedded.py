"""A fitted model as plain numbers that the script of a page runs: the same prediction without Python."""

import base64
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac._torch import single_threaded
from nsac.circuit import Synapses
from nsac.core import matched_normal
from nsac.estimators.base import AbstractEstimator
from nsac.estimators.boosting import Trees
from nsac.estimators.forecaster import NSACForecaster
from nsac.estimators.graph import prediction_noise
from nsac.estimators.kernel import JITTER, Kernel, kernel_covariance
from nsac.estimators.outages import CALIBRATED_AGES
from nsac.estimators.patterns import MissingPatterns
from nsac.estimators.regressor import NSACRegressor
from nsac.estimators.targets import max_epistemic
from nsac.estimators.window_models import CALENDAR_STEPS, window_lags
from nsac.explain.circuit import ExplainError
from nsac.layers.tails import scale_levels
from nsac.methods.event_trees import EventTrees
from nsac.methods.nsac import NSACMethod
from nsac.methods.trees import NODE
from nsac.uncertainty.mondrian import class_margins
from nsac.uncertainty.transformed import MOMENT_NODES

TYPES = {"i1": np.int8, "f4": np.float32, "f8": np.float64, "u1": np.uint8, "u2": np.uint16, "i4": np.int32}
MAX_STD_ERROR = 3e-5  # of a prediction, in target standard deviations, if a page computes the factor of the process
EXACT_TRIANGLE_ROWS = 500  # rows up to which a stored factor is in double precision

Tensors = dict[str, np.ndarray]


def embed(model: AbstractEstimator, coverage: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts for JSON, and packed tensors, of which the script of the page makes the model."""
    member = model.members_[0]
    if not isinstance(member, NSACMethod):
        raise ExplainError(
            f"`method` must be 'nsac' for a page, whose script runs the model. Got {model.method!r} instead. Use the "
            "numbers and `plot`."
        )
    noise = prediction_noise(model)
    assert noise is not None
    config = member.network.config
    tensors: Tensors = {"noise": _exact_noise(noise)}
    for i, each in enumerate(model.members_):
        assert isinstance(each, NSACMethod)
        tensors |= {f"{i}:{name}": value for name, value in _member_tensors(each).items()}
    facts: dict[str, Any] = {"members": len(model.members_), "heads": config.num_heads, "topk": config.topk}
    facts |= {"draws": noise.shape[0], "outputs": model.problem_.output_dim, "coverage": coverage}
    facts |= {"stack": None, "link": {"name": "identity"}}
    if isinstance(model, NSACForecaster) and model.encoding_ == "events":
        levels = scale_levels(noise.shape[0], noise.double()).tolist()
        return facts | {"kind": "events", "levels": levels, "events": _event_facts(model, coverage)}, pack(tensors)
    facts["scale"] = _list(model.calibration_.scale)
    margins = model.calibration_.margin(coverage)[None]
    if isinstance(model, NSACForecaster):
        facts |= {"kind": "windows", "windows": _window_facts(model)}
        if model.components_ is not None:
            tensors |= {"linear": _array(model.components_.linear)} | _tree_tensors(model.components_.trees)
        if model.stream_.begun:
            margins = (torch.as_tensor(model.stream_.margin(coverage)).double() / model.calibration_.scale)[None]
    else:
        assert isinstance(model, NSACRegressor)
        facts |= {"kind": "table", "table": _table_facts(model)}
        if model.calibration_.classes is not None:
            margins = class_margins(model.calibration_.scores, model.calibration_.classes, coverage)
        facts |= {"unit": _list(model.scale_), "offset": _list(model.centre_), "link": model.link_.to_dict()}
        nodes, weights = np.polynomial.hermite.hermgauss(MOMENT_NODES)
        facts |= {"nodes": (nodes * 2**0.5).tolist(), "weights": (weights / weights.sum()).tolist()}
        if model.components_ is not None:
            stack = model.components_.stack
            least_std, share = stack.aleatoric[0].sqrt(), stack.epistemic[1].clamp(min=1e-6)
            tolerance = 2 * MAX_STD_ERROR * float((least_std / share).min())  # of the variance of the process
            tensors |= _kernel_tensors(model.components_.kernel, tolerance) | _tree_tensors(model.components_.trees)
            facts |= _stack_facts(model)
    facts["margins"] = [_finite(row) for row in margins]
    return facts, pack(tensors)


def pack(tensors: Tensors) -> dict[str, Any]:
    """Type, offset and shape of each tensor, and all bytes as base64."""
    index, blocks, offset = {}, [], 0
    for name, tensor in tensors.items():
        kind = next(kind for kind, dtype in TYPES.items() if tensor.dtype == dtype)
        content = np.ascontiguousarray(tensor).astype(tensor.dtype.newbyteorder("<")).tobytes()
        content += b"\0" * (-len(content) % 8)
        index[name] = [kind, offset, list(tensor.shape) or [1]]
        blocks.append(content)
        offset += len(content)
    return {"index": index, "data": base64.b64encode(b"".join(blocks)).decode()}


def _exact_noise(like: Tensor) -> np.ndarray:
    """The noise of `predict` in double precision, (draws, topk, heads); a row has one query."""
    with single_threaded():
        generator = torch.Generator().manual_seed(0)
        return matched_normal(*like.shape, generator=generator, dtype=torch.float64)[:, 0].numpy()


def _member_tensors(member: NSACMethod) -> Tensors:
    """Weights under the names of the script; dense, (to, from), where the network has synapses."""
    attention, tensors = member.network.attention, {}
    for name, value in member.network.encoder.state_dict().items():
        tensors[f"encoder.{name}"] = value
    for name in ("query", "key", "value"):
        synapses: Synapses = getattr(attention, name).synapses
        tensors |= {f"{name}.weight": synapses.matrix().T, f"{name}.bias": synapses.bias}
    backbone = attention.backbone
    for name, each in (("inter", backbone.sensory), ("command", backbone.inter), ("motor", backbone.motor)):
        tensors |= {f"circuit.{name}": each.matrix().T, f"circuit.{name}.bias": each.bias}
    if backbone.recurrent is not None:
        tensors["circuit.recurrent"] = backbone.recurrent.matrix().T
        tensors["circuit.unfolds"] = torch.tensor([float(backbone.unfolds)])
    tensors |= {"clock.t_a": attention.clock.t_a, "clock.t_b": attention.clock.t_b}
    tensors |= {f"reader.{name}": value for name, value in member.reader.state_dict().items()}
    if member.novelty is not None and member.novelty.calibrated:
        tensors |= {f"novelty.{name}": value for name, value in member.novelty.state_dict().items()}
    if member.persistence is not None:
        tensors |= {f"persistence.{name}": value for name, value in member.persistence.state_dict().items()}
    stack, grown = member.stack, {}
    if stack is not None and stack.is_fitted:
        tensors |= {"stack.choice": stack.choice, "stack.targets": torch.tensor(stack.trees.targets)}
        tensors |= {f"stack.trees.{name}": getattr(stack.trees, name) for name in ("leads", "log_std")}
        grown = _tree_tensors(_grown_trees(stack.trees))
    return {name: each.detach().numpy(force=True).astype(np.float32) for name, each in tensors.items()} | grown


def _table_facts(model: NSACRegressor) -> dict[str, Any]:
    imputer = model.imputer_
    rows = range(len(imputer.donors["x"]))
    codes = imputer.donors.get("c", torch.zeros(len(rows), 0, dtype=torch.int64))
    donors = [{"x": [_number(v) for v in _list(imputer.donors["x"][k])], "c": codes[k].tolist()} for k in rows]
    learned = {name: imputer.learned[name].tolist() if name in imputer.learned else [] for name in ("x", "c")}
    facts: dict[str, Any] = {
        "centre": _list(model.columns_.centre),
        "scale": _list(model.columns_.scale),
        "donors": donors,
    }
    facts["patterns"] = _pattern_facts(model.patterns_)
    return facts | {"learned": learned, "sizes": list(model.problem_.categories), "missing": model.problem_.missing}


def _window_facts(model: NSACForecaster) -> dict[str, Any]:
    fitted, others = model.preprocessor_, model.components_
    facts: dict[str, Any] = {
        "centre": _list(fitted.offset),
        "scale": _list(fitted.scale),
        "change": _list(fitted.change),
    }
    facts |= {"missing": fitted.missing, "withAge": fitted.with_age, "roughness": fitted.roughness}
    facts |= {"maxLevel": model.problem_.max_level, "models": None}
    if others is not None:
        models: dict[str, Any] = {"weights": _list(others.weights), "amplitudes": list(others.problem.amplitudes)}
        models |= {"roughness": others.roughness, "drawShare": others.draw_share}
        models["cyclic"] = bool(others.features.angles)
        steps = torch.arange(1, others.features.horizon + 1)
        turns = [(angle * steps).float() for angle in others.features.angles]
        turns = [{"cosines": each.cos().tolist(), "sines": each.sin().tolist()} for each in turns]
        models |= {"season": others.features.season, "turns": turns, "calendarSteps": CALENDAR_STEPS}
        facts["models"] = models | {"lags": window_lags(others.problem.lookback)}
    ages = list(CALIBRATED_AGES[: len(model.outage_scale_)])
    return facts | {"outageAges": ages, "outageScale": model.outage_scale_.tolist()}


def _pattern_facts(patterns: MissingPatterns | None) -> dict[str, Any] | None:
    return None if patterns is None else {name: each.tolist() for name, each in patterns.to_tensors().items()}


def _event_facts(model: NSACForecaster, coverage: float) -> dict[str, Any]:
    maker, calibration = model.events_, model.calibration_
    facts: dict[str, Any] = {"channels": list(maker.columns.channels), "timeScale": model.problem_.time_scale}
    facts |= {"withLevels": maker.with_levels, "scale": {n: _list(v) for n, v in maker.scale._asdict().items()}}
    facts |= {"edges": calibration.edges.tolist(), "scales": _list(calibration.scale)}
    facts["patterns"] = _pattern_facts(calibration.patterns)
    return facts | {"margins": [_finite(row) for row in calibration.margins(coverage)]}


def _stack_facts(model: NSACRegressor) -> dict[str, Any]:
    assert model.components_ is not None
    stack, ranges = model.components_.stack, model.components_.ranges
    normal, scale = stack.nodes(model.num_samples)
    limit = max_epistemic(model.link_, model.scale_)
    facts = {"weights": stack.weights.tolist(), "aleatoric": stack.aleatoric.tolist()}
    facts |= {"epistemic": stack.epistemic.tolist(), "limits": stack.limits.tolist()}
    facts |= {"maxNoise": stack.max_noise.tolist(), "maxEpistemic": None if limit is None else limit.tolist()}
    facts |= {"normal": normal.tolist(), "scale": scale.tolist()}
    beyond = {"lower": ranges.lower, "upper": ranges.upper}
    beyond |= {"slopeLower": ranges.slope_lower, "slopeUpper": ranges.slope_upper}
    return {"stack": facts, "ranges": {name: each.tolist() for name, each in beyond.items()}}


def _kernel_tensors(kernel: Kernel, tolerance: float) -> Tensors:
    r"""Inducing rows and coefficients, and what the variance $k(x,x) - e(k)$ needs, where $e(k) = k^T E k$.

    Where every training row is an inducing row, $E = M (N + K M)^{-1} M$ with a diagonal N, the jitter j of K and
    $M = I - j (K + jI)^{-1}$. Then the script factorises K, and a page holds m numbers instead of m^2. A small jitter
    changes nothing, M = I and one factor suffices; otherwise $K M = K - jI + O(j^2)$. If neither is within the
    tolerance, because there are more training rows, a triangle T is stored, $T^T T = E$.
    """
    rows = (kernel.inducing / kernel.inverse_length).numpy().astype(np.float32)
    tensors: Tensors = {"kernel.rows": rows, "kernel.inverse_length": _array(kernel.inverse_length)}
    tensors |= {"kernel.variances": _array(kernel.variances), "kernel.coefficient": _array(kernel.coefficient)}
    prior, posterior = kernel.factors()
    size, eye = len(posterior), torch.eye(len(posterior), dtype=torch.float64)
    if size == len(rows):
        covariance = prior @ prior.T
        jitter = JITTER / (1 + JITTER) * covariance.diagonal().mean()
        shrinkage = eye - jitter * torch.cholesky_inverse(prior)  # M
        gain = torch.linalg.solve_triangular(prior.T, posterior @ posterior.T - eye, upper=True)
        gain = torch.linalg.solve_triangular(prior.T, gain.T, upper=True).diagonal().clamp(min=1e-12)  # of M N^-1 M
        between = (kernel.inducing + kernel.inducing.roll(1, 0)) / 2
        k = kernel_covariance(torch.cat([kernel.inducing, between]), kernel.inducing, kernel.variances).T
        features = torch.linalg.solve_triangular(prior, k, upper=False)
        reduced = torch.linalg.solve_triangular(posterior, features, upper=False)
        explained = features.square().sum(0) - reduced.square().sum(0)
        weight = torch.linalg.solve(shrinkage.square(), gain).clamp(min=1e-12)  # 1 / N
        candidates = {0.0: shrinkage.diagonal().square() / gain + jitter, float(jitter): 1 / weight - jitter}
        for taken, noise in candidates.items():
            factor, failed = torch.linalg.cholesky_ex(covariance - jitter * eye + torch.diag(noise))
            if failed:
                continue
            shrunk = k - taken * torch.cholesky_solve(k, prior) if taken else k
            error = torch.linalg.solve_triangular(factor, shrunk, upper=False).square().sum(0) - explained
            if float(error.abs().max()) < tolerance:
                return tensors | {"kernel.noise": _array(noise), "kernel.jitter": np.array([taken])}
    reduced = torch.linalg.solve_triangular(posterior, eye, upper=False)
    explained = torch.linalg.solve_triangular(prior.T, eye - reduced.T @ reduced, upper=True)
    explained = torch.linalg.solve_triangular(prior.T, explained.T, upper=True)
    values, axes = torch.linalg.eigh((explained + explained.T) / 2)
    triangle = torch.linalg.qr((axes * values.clamp(min=0).sqrt()).T).R
    packed = torch.cat([triangle[i, i:] for i in range(size)]).numpy()
    packed = packed.astype(np.float64 if size <= EXACT_TRIANGLE_ROWS else np.float32)
    return tensors | {"kernel.triangle": packed, "kernel.size": np.array([size], np.int32)}


def _tree_tensors(trees: Trees) -> Tensors:
    """Nodes of all trees in a row; a leaf has children 0. A number is at most a threshold in single precision too."""
    feature, left, right = (getattr(trees, name).numpy() for name in ("feature", "left", "right"))
    itself = np.arange(left.shape[1])
    leaf = left == itself
    used = np.array([_grown(row_left, row_right) for row_left, row_right in zip(left, right, strict=True)], dtype=int)
    used = used.reshape(len(left))
    keep = itself < used[:, None]
    threshold = trees.threshold.numpy()
    below = threshold.astype(np.float32)
    with np.errstate(over="ignore"):
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
    totals = np.repeat(np.arange(trees.start.numel()), len(left) // trees.start.numel())
    found = {"feature": feature.astype(np.uint16), "left": np.where(leaf, 0, left).astype(np.uint8)}
    found |= {"right": np.where(leaf, 0, right).astype(np.uint8), "threshold": below.astype(np.float32)}
    found["value"] = trees.value.numpy().astype(np.float32)
    tensors = {f"trees.{name}": each[keep] for name, each in found.items()}
    first = np.concatenate([[0], np.cumsum(used)[:-1]]) if len(used) else np.zeros(0)
    return tensors | {
        "trees.first": first.astype(np.int32), "trees.total": totals.astype(np.int32),
        "trees.start": trees.start.numpy().ravel().astype(np.float64),
    }  # fmt: skip


def _grown_trees(trees: EventTrees) -> Trees:
    """Those of all targets, without rounds that were not grown; a target without trees has one leaf, 0, a round."""
    used = (trees.value != 0).flatten(2).any(-1).any(0).nonzero()
    rounds = int(used.max()) + 1 if len(used) else 0
    nodes = {name: getattr(trees, name)[:, :rounds].flatten(0, 1).to(dtype) for name, dtype in NODE.items()}
    return Trees(trees.start.double()[None], trees.depth, **nodes)


def _grown(left: np.ndarray, right: np.ndarray) -> int:
    """Number of nodes of a tree that can be reached: children come after their parents."""
    inner = left != np.arange(len(left))
    return int(max(left[inner].max(), right[inner].max())) + 1 if inner.any() else 1


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def _list(values: Any) -> list[float]:
    return [float(value) for value in np.asarray(values, dtype=np.float64).ravel()]


def _finite(values: Any) -> list[float | None]:
    return [None if np.isinf(each) else each for each in _list(values)]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
