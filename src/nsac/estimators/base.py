"""The base of both estimators: an ensemble trained on data splits, its mixture, and its calibration."""

import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nsac._checks import check_choice, check_int
from nsac._torch import single_threaded
from nsac.estimators.card import model_card
from nsac.estimators.files import library_versions, to_archive, write_model
from nsac.methods import METHODS, AbstractMethod, AbstractProblem, AbstractSolved, fit
from nsac.models.encoder import Batch
from nsac.training import Data, DivergedError, ProgressBar, Subset, TrainConfig, batches
from nsac.training.progress import Report
from nsac.uncertainty import Calibration, Prediction

PREDICTION_BATCH = 1024  # rows predicted at a time: bounds memory
RETRY_LEARNING_RATE_FACTOR = 0.1  # training that diverges starts again with this factor on the learning rate
SEARCH_MEMBERS = 3  # members that are trained with every candidate
SINGLE_SEARCH_ROWS = 400  # with this many validation rows, one member is enough to compare candidates
MIN_FOLDS = 8  # least number of cross-validation folds of a table; with fewer members, some folds are never left out
CALIBRATION_FRACTION = 0.1  # fraction of the rows in the calibration set
MIN_CALIBRATION_ROWS = 40  # least size of the calibration set, if that is at most a fifth of the rows
MAX_CALIBRATION_ROWS = 2000  # largest size of the calibration set
MAX_NUM_SAMPLES = 10_000  # most draws per member; more would not fit into memory

Split = tuple[np.ndarray, np.ndarray]  # row numbers of a member's training and validation set
Splits = Sequence[Split]
Candidates = Sequence[dict[str, Any]]  # fields of `TrainConfig`


class AbstractEstimator(BaseEstimator, ABC):
    """An ensemble of one method, each member trained on its own split; the members predict as one mixture.

    The `fit` of a subclass makes a problem and data with standardised float32 tensors, and calls `_learn`. It predicts
    with `mixture` or `_draws`, calibrates the result with `calibration_`, and saves its own state by `_state`.
    """

    method: str
    members: int | None
    folds: int | Literal["deprecated"] | None = "deprecated"
    training: dict[str, Any] | None
    num_samples: int = 20
    random_state: Any
    verbose: bool

    kinds: ClassVar[tuple[str, ...]]  # of problems
    calibration_: Any  # `Calibration`, or what has its place

    @property
    def _kind(self) -> str:
        """Kind of the problem of this estimator."""
        return self.kinds[0]

    def _read_calibration(self, tensors: dict[str, Tensor]) -> Any:
        """The calibration whose `to_tensors` gave these."""
        return Calibration.from_tensors(tensors)

    @abstractmethod
    def _training(self, rows: int) -> dict[str, Any]:
        """Fields of `TrainConfig` for this number of training rows, where they differ from the default."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The fitted state besides members and calibration: plain values for JSON, and tensors."""

    @abstractmethod
    def _load_state(self, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Inverse of `_state`. Members and calibration are set already. Any exception becomes a ModelError."""

    def save(self, folder: str | PathLike) -> None:
        """Write a folder that `nsac.load` reads: safetensors, JSON and a model card, complete or absent."""
        check_is_fitted(self)
        write_model(folder, *to_archive(self), model_card(self, library_versions()))

    def _learn(
        self, problem: AbstractProblem, rows: Data, calibration: Data, splits: Splits, seed: int, candidates: Candidates
    ) -> None:
        """Fit one member per split of `rows`, and calibrate their mixture."""
        self._fit_members(problem, rows, splits, seed, candidates)
        with single_threaded():
            self.calibration_ = Calibration.fit(self._draws(calibration), targets_of(calibration))

    def _fit_members(
        self, problem: AbstractProblem, rows: Data, splits: Splits, seed: int, candidates: Candidates
    ) -> None:
        """Fit one member per split of `rows`.

        Sets `problem_`, `members_`, `seeds_` and `chosen_`, the selected one of `candidates`, which are ordered so that
        the score has one minimum, and compared on the validation rows of the first members.
        """
        self.problem_ = problem
        self.seeds_ = [(seed + 10_007 * k) % 2**31 for k in range(len(splits))]
        with single_threaded():
            self._search(rows, splits, candidates)

    def _search(self, rows: Data, splits: Splits, given: Candidates) -> None:
        """Set the best candidate, without the fields that `training` fixes, and all members trained with it."""
        solved, candidates = issubclass(METHODS[self.method], AbstractSolved), []
        for candidate in given:
            free = {name: v for name, v in candidate.items() if not solved and name not in (self.training or {})}
            if free not in candidates:
                candidates.append(free)
        pairs = list(zip(splits, self.seeds_, strict=True))
        n_compared = 0
        if len(candidates) > 1:
            n_compared = 1 if len(splits[0][1]) >= SINGLE_SEARCH_ROWS else SEARCH_MEMBERS
        trained: dict[int, list[AbstractMethod]] = {0: []}

        def score(i: int) -> float:
            bar.expect(len(splits))
            trained[i] = [self._member(rows, *pair, candidates[i], bar.next_run()) for pair in pairs[:n_compared]]
            return self._validation_nll(trained[i], rows, splits)

        with self._progress(len(splits)) as bar:
            best = minimise_unimodal(score, len(candidates)) if n_compared else 0
            others = [self._member(rows, *pair, candidates[best], bar.next_run()) for pair in pairs[n_compared:]]
        self.chosen_, self.members_ = candidates[best], trained[best] + others

    def _progress(self, members: int) -> ProgressBar:
        """One bar for the training of all members."""
        return ProgressBar(description=self.method, runs=members, enabled=bool(self.verbose))

    def _member(
        self, rows: Data, split: Split, seed: int, candidate: dict[str, Any], report: Report | None = None
    ) -> AbstractMethod:
        given = self._training(len(split[0])) | candidate | dict(self.training or {})
        config = TrainConfig.from_dict({"accelerator": "cpu", "explode": 1e30} | given)  # clipping is enough
        try:
            return self._train(rows, split, seed, config, report)
        except DivergedError:
            slower = replace(config, learning_rate=RETRY_LEARNING_RATE_FACTOR * config.learning_rate)
            return self._train(rows, split, seed, slower, report)

    def _train(self, rows: Data, split: Split, seed: int, config: TrainConfig, report: Report | None) -> AbstractMethod:
        member = METHODS[self.method](self.problem_, seed=seed)  # pyright: ignore[reportCallIssue]
        train, validation = Subset(rows, split[0]), Subset(rows, split[1])
        fit(member, train, validation, config, seed=seed, report=report)
        return member.cpu().double().eval()

    def _validation_nll(self, members: Sequence[AbstractMethod], rows: Data, splits: Splits) -> float:
        """Negative log-likelihood of the members' validation rows, after one variance scale for all of them."""
        predictions, targets = [], []
        for member, (_, validation) in zip(members, splits, strict=False):
            data = Subset(rows, validation)
            predictions.append(mixture([member], batches(data, PREDICTION_BATCH), self.num_samples))
            targets.append(targets_of(data))
        p, y = join(predictions, 1), torch.cat(targets)
        return float(-Calibration.fit(p, y).apply(p).log_prob(y).nanmean())

    def _draws(self, data: Data) -> Prediction:
        return mixture(self.members_, batches(data, PREDICTION_BATCH), self.num_samples)

    def _check_epistemic(self) -> None:
        check_is_fitted(self)
        if len(self.members_) == 1 and not METHODS[self.method].has_epistemic:
            able = [name for name, cls in METHODS.items() if cls.has_epistemic and self._kind in cls.kinds]
            raise ValueError(
                f"`method` must have epistemic variance ({', '.join(able)}), or `members` must be above 1. "
                f"Got {self.method!r} and 1 instead."
            )

    def _check_method(self) -> None:
        check_choice("method", self.method, [name for name, cls in METHODS.items() if self._kind in cls.kinds])
        check_int("num_samples", self.num_samples)
        if self.num_samples > MAX_NUM_SAMPLES:
            raise ValueError(f"`num_samples` must be at most {MAX_NUM_SAMPLES}. Got {self.num_samples!r} instead.")
        if not (self.training is None or isinstance(self.training, Mapping)):
            raise ValueError(
                f"`training` must be a dictionary, such as {{'max_steps': 500}}. Got {self.training!r} instead."
            )

    def _n_members(self) -> int | None:
        """`members`, or for one release the argument's old name, `folds`."""
        members = self.members
        if self.folds != "deprecated":
            message = "`folds` was renamed `members` and will be removed in the next release. Pass `members`."
            warnings.warn(message, FutureWarning, stacklevel=3)
            members = self.folds
        if members is not None:
            check_int("members", members)
        return members


def mixture(members: Sequence[AbstractMethod], data: Iterable[Batch], num_samples: int) -> Prediction:
    """Draws of all members before calibration, in standardised units and double precision.

    A row's draws do not depend on the other rows.
    """
    chunks = []
    with single_threaded(), torch.no_grad():
        for batch in data:
            double = {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}
            chunks.append(join([member.predict(double, num_samples) for member in members], 0))
    return join(chunks, 1)


def join(predictions: Sequence[Prediction], axis: int) -> Prediction:
    """Several predictions as one: axis 0 joins draws, axis 1 joins rows."""
    mean_draws = torch.cat([p.mean_draws for p in predictions], axis)
    return Prediction(mean_draws, torch.cat([p.log_std_draws for p in predictions], axis))


def minimise_unimodal(score: Callable[[int], float], n: int) -> int:
    """Where `score` is least among 0 to n - 1 if it has one minimum: downhill from the middle, each point once."""
    score = functools.cache(score)
    best = (n - 1) // 2
    step = 1 if best + 1 < n and score(best + 1) < score(best) else -1
    while 0 <= best + step < n and score(best + step) < score(best):
        best += step
    return best


def calibration_size(rows: int) -> int:
    """Rows in the calibration set: a tenth, at least 40 if that is at most a fifth, at most 2000, never none."""
    size = max(round(CALIBRATION_FRACTION * rows), min(MIN_CALIBRATION_ROWS, rows // 5), 1)
    return min(size, MAX_CALIBRATION_ROWS)


def random_splits(rows: int, members: int, random_state: np.random.RandomState, folds: int = MIN_FOLDS) -> list[Split]:
    """Cross-validation: member k trains on all rows but fold k, its validation set, at most an eighth of the rows."""
    order = random_state.permutation(rows)
    parts = np.array_split(order, min(max(members, folds), rows))[:members]
    return [(np.setdiff1d(order, part), np.sort(part)) for part in parts]


def targets_of(data: Data) -> Tensor:
    """`y` of all rows, in double precision."""
    return torch.cat([batch["y"].double() for batch in batches(data, PREDICTION_BATCH)])
