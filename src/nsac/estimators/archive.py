"""A fitted estimator as plain values and tensors, and back."""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from nsac._torch import single_threaded
from nsac.methods import METHODS, AbstractMethod, problem_from_dict
from nsac.uncertainty import Calibration

if TYPE_CHECKING:
    from nsac.estimators.base import AbstractEstimator

E = TypeVar("E", bound="AbstractEstimator")

_KEYS = {"parameters", "own", "problem", "seeds"}
"""Of a config; `own` is what `_state` returns."""


def to_archive(estimator: "AbstractEstimator") -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors of a fitted estimator."""
    facts, state = estimator._state()
    config = {
        "class": type(estimator).__name__,
        "parameters": _saved_parameters(estimator),
        "own": facts,
        "problem": estimator.problem_.to_dict(),
        "seeds": estimator.seeds_,
    }
    tensors = {f"own.{name}": tensor for name, tensor in state.items()}
    tensors |= {f"calibration.{name}": tensor for name, tensor in estimator.calibration_.to_tensors().items()}
    for k, member in enumerate(estimator.members_):
        for name, tensor in member.state_dict().items():
            tensors[f"member.{k}.{name}"] = tensor.float() if _is_single(tensor) else tensor
    return _plain(config), tensors


def from_archive(cls: type[E], config: dict[str, Any], tensors: dict[str, Tensor]) -> E:
    """Inverse of `to_archive`, without the key `class`. Wrong values may raise any exception."""
    if set(config) != _KEYS:
        raise ValueError(f"`config` must have the keys {sorted(_KEYS)}. Got {sorted(config)} instead.")
    estimator = cls(**_loaded_parameters(cls, config["parameters"]))
    estimator._check_method()
    groups = _grouped(tensors)
    estimator.calibration_ = Calibration.from_tensors(groups.pop("calibration"))
    estimator.problem_ = problem_from_dict(config["problem"])
    estimator.seeds_ = config["seeds"]
    outputs = estimator.problem_.output_dim
    if outputs != estimator.calibration_.scale.numel() or len(estimator.seeds_) > len(tensors):
        raise ValueError("`problem` does not fit the tensors.")
    state = groups.pop("own", {})
    with single_threaded():
        estimator.members_ = [
            _load_member(estimator, groups.pop(f"member.{k}"), seed) for k, seed in enumerate(estimator.seeds_)
        ]
    if groups or not estimator.members_:
        raise ValueError(f"The tensors must be those of a model. Got these besides: {sorted(groups)}.")
    estimator._load_state(config["own"], state)
    return estimator


def _saved_parameters(estimator: "AbstractEstimator") -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None  # a generator cannot be saved, and is no longer needed
    if "members" in parameters:
        folds = parameters.pop("folds", "deprecated")
        if folds != "deprecated":
            parameters["members"] = folds
    return parameters


def _loaded_parameters(cls: "type[AbstractEstimator]", parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters by their present names: `members` was once `folds`."""
    if "folds" in parameters and "members" in cls._get_param_names():
        parameters = {"members" if name == "folds" else name: value for name, value in parameters.items()}
    return parameters


def _load_member(estimator: "AbstractEstimator", tensors: dict[str, Tensor], seed: int) -> AbstractMethod:
    problem = estimator.problem_
    member = METHODS[estimator.method](problem, seed=seed).double()  # pyright: ignore[reportCallIssue]
    tensors = _renamed(tensors, problem.network.d_model)
    expected = member.state_dict()
    for name, tensor in expected.items():
        found = tensors.get(name)
        if found is None or found.shape != tensor.shape or found.is_floating_point() != tensor.is_floating_point():
            raise ValueError(f"Tensor {name!r} is missing, or has another shape.")
    member.load_state_dict({name: tensor.to(expected[name]) for name, tensor in tensors.items()})
    if not all(torch.isfinite(parameter).all() for parameter in member.parameters()):
        raise ValueError("Weights must be finite.")
    return member.eval()


def _is_single(tensor: Tensor) -> bool:
    """Whether float32 represents all values; weights were trained in single precision."""
    return tensor.is_floating_point() and torch.equal(tensor.float().double(), tensor.double())


def _plain(value: Any) -> Any:
    """Numbers and sequences of numpy as those of Python, for JSON."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _grouped(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """By the first word of their names: "own", "calibration" or "member.k"."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        head, _, rest = name.partition(".")
        if head == "member":
            number, _, rest = rest.partition(".")
            head = f"member.{number}"
        groups.setdefault(head, {})[rest] = tensor
    return groups


def _renamed(tensors: dict[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Tensors of a member by their present names.

    Hidden layers once read the query alone: the same function has weights 0 for the attended values.
    """
    old, new = "reader.query.", "reader.hidden."
    renamed = {new + name.removeprefix(old) if name.startswith(old) else name: t for name, t in tensors.items()}
    if f"{old}0.weight" in tensors:
        renamed[f"{new}0.weight"] = pad(renamed[f"{new}0.weight"], (0, d_model))
    return renamed
