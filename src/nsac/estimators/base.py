"""What the two estimators share: members trained on folds, their mixture, its calibration, and files."""

import contextlib
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from os import PathLike
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.nn.functional import pad

from nsac._checks import check_choice
from nsac._torch import single_threaded
from nsac.estimators.calibrated import Calibration
from nsac.estimators.files import write_model
from nsac.methods import METHODS, AbstractMethod, AbstractProblem, AbstractSolved, fit, problem_from_dict
from nsac.training import Data, DivergedError, ProgressBar, Subset, TrainConfig, batches
from nsac.uncertainty import Prediction

DRAWS = 20
"""Draws of each member."""
PREDICTION_BATCH = 1024
"""Rows predicted at a time: bounds memory."""
CALM = 0.1
"""If training diverges it begins once more, with this share of the learning rate."""
FOLDS = 8
"""Folds of a table; with fewer members, some are in every member's training part."""
TRIED, ENOUGH = 3, 400
"""Members that are trained with every candidate: three, or one if it has so many validation rows."""

Part = tuple[np.ndarray, np.ndarray]
"""Row numbers a member trains on, and those that choose its weights."""
E = TypeVar("E", bound="AbstractEstimator")


class AbstractEstimator(BaseEstimator, ABC):
    """Several members of one method, each trained on its own part of the rows; they predict as one mixture.

    A subclass has an `__init__` that stores its arguments, the five below among them. Its `fit` makes a `Problem` and
    data with standardised float32 tensors, calls `_learn`, and sets what it needs to turn inputs into such data and
    predictions into the unit of the target. To predict it calls `_draws`, some thousand rows at a time where there are
    many, and corrects what it gets with `calibration_.apply` or `calibration_.interval`. For files it implements `_own`
    and `_restore`.
    """

    method: str
    folds: int | None
    training: dict[str, Any] | None
    random_state: Any
    verbose: bool

    kind: ClassVar[str]
    """of `Problem`"""

    @abstractmethod
    def _training(self, rows: int) -> dict[str, Any]:
        """Fields of `TrainConfig` for so many training rows, where they differ from the default."""

    @abstractmethod
    def _own(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What else a fitted estimator knows: plain values for JSON, and tensors."""

    @abstractmethod
    def _restore(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Set what `_own` gave. Members and calibration are there already. Whatever it raises becomes a ModelError."""

    def save(self, folder: str | PathLike) -> None:
        """Write a folder that `nsac.load` reads: safetensors and JSON, whole or not at all."""
        check_is_fitted(self)
        write_model(folder, *self._to_files())

    def _learn(
        self,
        problem: AbstractProblem,
        rows: Data,
        calibration: Data,
        parts: Sequence[Part],
        seed: int,
        candidates: Sequence[dict[str, Any]] = ({},),
    ) -> None:
        """Fit one member per part and calibrate their mixture.

        Sets `problem_`, `members_`, `seeds_`, `calibration_` and `chosen_`, the candidate that was taken.

        Args:
            problem: what the data looks like.
            rows: what `parts` point into; floats in float32.
            calibration: rows that are used for nothing else; NaN in `y` was not observed.
            parts: training and validation rows of each member.
            seed: fixes all that is random.
            candidates: fields of `TrainConfig`, in order of something, tried on the first parts; what does best on
                their validation rows is taken for all. What `training` fixes is not tried.
        """
        self.problem_ = problem
        self.seeds_ = [(seed + 10_007 * k) % 2**31 for k in range(len(parts))]
        given = self.training or {}
        free = [{k: v for k, v in each.items() if k not in given} for each in candidates]
        free = [each for i, each in enumerate(free) if each not in free[:i]]
        if issubclass(METHODS[self.method], AbstractSolved):
            free = [{}]
        pairs = list(zip(parts, self.seeds_, strict=True))
        first = pairs[: 1 if len(parts[0][1]) >= ENOUGH else TRIED] if len(free) > 1 else []
        tried: dict[int, list[AbstractMethod]] = {}

        def score(i: int) -> float:
            tried[i] = [self._member(rows, *pair, free[i]) for pair in first]
            return _score(tried[i], rows, parts)

        with single_threaded():
            best = valley(score, len(free)) if first else 0
            self.chosen_ = free[best]
            rest = [self._member(rows, *pair, self.chosen_) for pair in pairs[len(first) :]]
            self.members_ = tried.get(best, []) + rest
            y = torch.cat([batch["y"] for batch in batches(calibration, PREDICTION_BATCH)])
            self.calibration_ = Calibration.fit(self._draws(calibration), y.double())

    def _member(self, rows: Data, part: Part, seed: int, candidate: dict[str, Any]) -> AbstractMethod:
        given = self._training(len(part[0])) | candidate | dict(self.training or {})
        config = TrainConfig.from_dict({"accelerator": "cpu", "explode": 1e30} | given)  # clipping is enough
        train, validation = (Subset(rows, each) for each in part)
        for share in (1.0, CALM):
            member = METHODS[self.method](self.problem_, seed=seed)  # pyright: ignore[reportCallIssue]
            calm = TrainConfig.from_dict(asdict(config) | {"learning_rate": share * config.learning_rate})
            try:
                with ProgressBar(description=self.method) if self.verbose else contextlib.nullcontext() as report:
                    fit(member, train, validation, calm, seed=seed, report=report)
                break
            except DivergedError:
                if share == CALM:
                    raise
        return member.cpu().double().eval()

    def _draws(self, data: Data) -> Prediction:
        """The mixture of all members, as they are (not calibrated), in standardised units and double precision.

        A row's draws do not depend on the other rows.
        """
        with single_threaded(), torch.no_grad():
            return _join([_mixture(self.members_, batch) for batch in batches(data, PREDICTION_BATCH)], 1)

    def _check_method(self) -> None:
        check_choice("method", self.method, [name for name, cls in METHODS.items() if self.kind in cls.kinds])

    def _to_files(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Config and tensors."""
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], (int, np.integer)):
            parameters["random_state"] = None  # a generator cannot be saved, and is not needed any more
        facts, own = self._own()
        config = {"class": type(self).__name__, "parameters": parameters, "own": facts}
        config = _plain(config | {"problem": self.problem_.to_dict(), "seeds": self.seeds_})
        tensors = {f"own.{name}": tensor for name, tensor in own.items()}
        tensors |= {f"calibration.{name}": tensor for name, tensor in self.calibration_.to_tensors().items()}
        for k, member in enumerate(self.members_):
            single = {name: v.float() if self._is_single(v) else v for name, v in member.state_dict().items()}
            tensors |= {f"member.{k}.{name}": tensor for name, tensor in single.items()}
        return config, tensors

    def _is_single(self, tensor: Tensor) -> bool:
        """Whether single precision holds all of it; what was learned was learned in single precision."""
        return tensor.is_floating_point() and torch.equal(tensor.float().double(), tensor.double())

    @classmethod
    def _from_files(cls: type[E], config: dict[str, Any], tensors: dict[str, Tensor]) -> E:
        """A fitted estimator from what `_to_files` gave, without its class. Faults may raise anything."""
        expected = {"parameters", "own", "problem", "seeds"}
        if set(config) != expected:
            raise ValueError(f"`config` must have the keys {sorted(expected)}. Got {sorted(config)} instead.")
        self = cls(**config["parameters"])
        self._check_method()
        groups = _grouped(tensors)
        self.calibration_ = Calibration.from_tensors(groups.pop("calibration"))
        self.problem_ = problem_from_dict(config["problem"])
        self.seeds_ = config["seeds"]
        if self.problem_.output_dim != self.calibration_.scale.numel() or len(self.seeds_) > len(tensors):
            raise ValueError("`problem` does not fit the tensors.")
        own = groups.pop("own", {})
        with single_threaded():
            self.members_ = [self._load_member(groups.pop(f"member.{k}"), s) for k, s in enumerate(self.seeds_)]
        if groups or not self.members_:
            raise ValueError(f"The tensors must be those of a model. Got these besides: {sorted(groups)}.")
        self._restore(config["own"], own)
        return self

    def _load_member(self, tensors: dict[str, Tensor], seed: int) -> AbstractMethod:
        member = METHODS[self.method](self.problem_, seed=seed).double()  # pyright: ignore[reportCallIssue]
        tensors = _as_now(tensors, self.problem_.network.d_model)
        for name, tensor in member.state_dict().items():
            there = tensors.get(name)
            if there is None or there.shape != tensor.shape or there.is_floating_point() != tensor.is_floating_point():
                raise ValueError(f"Tensor {name!r} is not there, or of another shape.")
        member.load_state_dict({name: tensor.to(member.state_dict()[name]) for name, tensor in tensors.items()})
        if not all(torch.isfinite(parameter).all() for parameter in member.parameters()):
            raise ValueError("Weights must be finite.")
        return member.eval()


def random_parts(rows: int, folds: int, random: np.random.RandomState) -> list[Part]:
    """Member k trains on all rows but fold k, which chooses its weights; a fold is at most an eighth of the rows."""
    order = random.permutation(rows)
    blocks = np.array_split(order, min(max(folds, FOLDS), rows))[:folds]
    return [(np.setdiff1d(order, block), np.sort(block)) for block in blocks]


def valley(score: Callable[[int], float], n: int) -> int:
    """Where `score` is least among 0 to n - 1 if it has one valley; from the middle downhill, each place once."""
    score = functools.cache(score)
    best = (n - 1) // 2
    step = 1 if best + 1 < n and score(best + 1) < score(best) else -1
    while 0 <= best + step < n and score(best + step) < score(best):
        best += step
    return best


def _mixture(members: Sequence[AbstractMethod], batch: dict[str, Tensor]) -> Prediction:
    batch = {name: v.double() if v.is_floating_point() else v for name, v in batch.items()}
    return _join([member.predict(batch, DRAWS) for member in members], 0)


def _join(parts: Sequence[Prediction], axis: int) -> Prediction:
    """As one: draws along axis 0, rows along axis 1."""
    return Prediction(*(torch.cat([getattr(p, n) for p in parts], axis) for n in ("mean_draws", "log_std_draws")))


@torch.no_grad()
def _score(members: Sequence[AbstractMethod], rows: Data, parts: Sequence[Part]) -> float:
    """Negative log-likelihood of the members' validation rows, after one correction of scale for all of them."""
    predictions, targets = [], []
    for member, (_, validation) in zip(members, parts, strict=False):
        for batch in batches(Subset(rows, validation), PREDICTION_BATCH):
            predictions.append(_mixture([member], batch))
            targets.append(batch["y"].double())
    p, y = _join(predictions, 1), torch.cat(targets)
    return float(-Calibration.fit(p, y).apply(p).log_prob(y).nanmean())


def _plain(value: Any) -> Any:
    """Numbers and sequences of numpy as Python has them, for JSON."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _grouped(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """By what they belong to: "own", "calibration" or "member.k"."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        head, _, rest = name.partition(".")
        if head == "member":
            number, _, rest = rest.partition(".")
            head = f"member.{number}"
        groups.setdefault(head, {})[rest] = tensor
    return groups


def _as_now(tensors: dict[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Tensors of a member by their present names.

    Hidden layers once saw the query alone: the same function has weights 0 for what was attended to.
    """
    old, new = "reader.query.", "reader.hidden."
    renamed = {new + name.removeprefix(old) if name.startswith(old) else name: t for name, t in tensors.items()}
    if f"{old}0.weight" in tensors:
        renamed[f"{new}0.weight"] = pad(renamed[f"{new}0.weight"], (0, d_model))
    return renamed
