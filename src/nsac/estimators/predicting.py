"""How a fitted regressor predicts: rows in chunks, members and other models as one calibrated distribution."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from nsac._checks import probabilities
from nsac._torch import single_threaded
from nsac.estimators.base import PREDICTION_BATCH, AbstractEstimator, join, mixture
from nsac.estimators.columns import Columns
from nsac.estimators.components import Components
from nsac.estimators.ensemble import ensemble_moments
from nsac.estimators.imputation import HotDeck
from nsac.estimators.patterns import MissingPatterns
from nsac.estimators.stacked import member_draws
from nsac.estimators.tables import as_frame, check_table
from nsac.estimators.targets import max_epistemic
from nsac.methods import TableProblem
from nsac.models.encoder import Batch
from nsac.training import Data, batches
from nsac.uncertainty import Link, Prediction, TransformedPrediction, prediction_columns

if TYPE_CHECKING:
    from pandas import DataFrame

CHUNK_ROWS = 8192  # rows whose draws are in memory at once
OUTSIDE_WEIGHT = 9.0  # of a squared standard deviation beyond the training range, in the out-of-distribution score


class AbstractTablePredictor(AbstractEstimator):
    """All ways to predict rows of a table; `fit` and `_load_state` of a subclass set the attributes below."""

    problem_: TableProblem
    columns_: Columns
    imputer_: HotDeck
    components_: Components | None  # None: the mixture of the members predicts
    patterns_: MissingPatterns | None  # None: all rows are calibrated together
    link_: Link
    centre_: np.ndarray  # (outputs,), of the targets on the scale of the link, as `scale_`
    scale_: np.ndarray
    data_: dict[str, Any]
    _axes: int  # of y

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean, (n[, outputs]), and with `return_std` the calibrated standard deviation as well."""
        moments = [(p.mean, p.std) for p in self._predictions(X)]
        mean = self._joined([mean for mean, _ in moments])
        return (mean, self._joined([std for _, std in moments])) if return_std else mean

    def predict_frame(
        self, X: Any, coverage: float | Sequence[float] = 0.9, quantiles: float | Sequence[float] = ()
    ) -> "DataFrame":
        """All of a prediction as a table with one row per row of X, and its index if it is a frame.

        Args:
            X: (n, features), an array or a frame.
            coverage: of the conformal intervals, one or several; 0.9 makes the columns `lower_90` and `upper_90`.
            quantiles: levels of quantiles of the calibrated mixture; 0.1 makes the column `quantile_10`.

        Returns:
            `mean`, `std`, `aleatoric` and `epistemic` variance (their sum is std^2), interval ends and quantiles. For
            several targets each name ends with that of the target, or with its index.
        """
        from pandas import DataFrame

        coverages, levels = probabilities("coverage", coverage), probabilities("quantiles", quantiles)
        names, chunks = [""], []
        for p, classes in zip(self._predictions(X), self._classes(X), strict=False):
            if p.shape[1] > 1:
                names = self.data_.get("targets") or [str(i) for i in range(p.shape[1])]
            intervals = {each: self._interval(p, each, classes) for each in coverages}
            chunks.append(prediction_columns(p, intervals, {each: p.quantile(each) for each in levels}, names))
        columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        return DataFrame(columns, index=X.index if hasattr(X, "iloc") else None)

    def predict_interval(self, X: Any, coverage: float | Sequence[float] = 0.9) -> np.ndarray:
        """Conformal intervals, (n, 2[, outputs]): lower and upper ends that cover the fraction `coverage` of the rows.

        For a sequence of coverages (n, coverages, 2[, outputs]).
        """
        coverages = probabilities("coverage", coverage)
        chunks = []
        for p, classes in zip(self._predictions(X), self._classes(X), strict=False):
            intervals = [torch.stack(self._interval(p, each, classes), 1) for each in coverages]
            chunks.append(torch.stack(intervals, 1))
        ends = self._joined(chunks)
        return ends[:, 0] if np.ndim(coverage) == 0 else ends

    def predict_quantiles(self, X: Any, quantiles: float | Sequence[float] = (0.1, 0.5, 0.9)) -> np.ndarray:
        """Quantiles of the calibrated mixture, (n, quantiles[, outputs])."""
        levels = probabilities("quantiles", quantiles)
        return self._joined([p.quantile(levels).movedim(0, 1) for p in self._predictions(X)])

    def predict_distribution(self, X: Any) -> Prediction | TransformedPrediction:
        """The calibrated distribution in the unit of y, one per row (and output)."""
        p = self._to_targets(join([self._base(each) for each in self._predictions(X)], 1))
        return p[:, 0] if self._axes == 1 else p

    def conformal_interval(
        self, prediction: Prediction | TransformedPrediction, coverage: float = 0.9, X: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Lower and upper ends of the conformal interval of a prediction that `predict_distribution` returned.

        With X, the predicted rows, they are those of `predict_interval`, whose coverage holds for each pattern of
        missing values. Without it, it holds for all rows together.
        """
        classes = None if X is None or self.patterns_ is None else torch.cat(list(self._classes(X)))
        if self._axes == 2:
            return self._interval(prediction, coverage, classes)
        lower, upper = self._interval(prediction[:, None], coverage, classes)
        return lower[:, 0], upper[:, 0]

    def ood_score(self, X: Any) -> np.ndarray:
        r"""Out-of-distribution score of each row, (n,): how unsure the mean is, and how far the row is out of range.

        $\sqrt{V + 9 \sum_j d_j^2}$ with the epistemic variance V over the variance of the target (with a link, of the
        transformed target) and the distance $d_j$ of number j beyond the training range, in standard deviations.
        Numbers that hardly matter for the target count as well.
        """
        self._check_epistemic()
        variance = np.concatenate([p.epistemic.mean(1).numpy() for p in self._chunks(X)])
        if self.components_ is not None:
            beyond = self.components_.ranges.distance(self._numbers(X)).numpy()
            variance = variance + (OUTSIDE_WEIGHT * beyond**2).sum(1)
        return np.sqrt(variance)

    def outside_range(self, X: Any) -> np.ndarray:
        """Whether a number of a row is notably outside the range of the training rows, (n,)."""
        check_is_fitted(self)
        if self.components_ is None:
            raise ValueError(f"`method` must be 'nsac' to know the training range. Got {self.method!r} instead.")
        return self.components_.ranges.outside(self._numbers(X)).numpy()

    def _numbers(self, X: Any) -> Tensor:
        """Standardised numbers of the rows, NaN = missing."""
        return self.columns_.tensors(check_table(self, as_frame(X), reset=False))["x"]

    def _predictions(self, X: Any) -> Iterator[Prediction | TransformedPrediction]:
        """Calibrated predictions in the unit of y, (rows, outputs), of some thousand rows at a time."""
        for p in self._chunks(X):
            yield self._calibrated(p)

    def predict_columns(self, columns: Batch) -> Prediction | TransformedPrediction:
        """Calibrated predictions in the unit of y, (rows, outputs), of rows as `columns_.tensors` returns them."""
        check_is_fitted(self)
        return self._calibrated(self.imputer_.predict(columns, self._mixture))

    def _calibrated(self, p: Prediction) -> Prediction | TransformedPrediction:
        scaled = self.calibration_.apply(p).affine(torch.as_tensor(self.scale_), torch.as_tensor(self.centre_))
        return self._to_targets(scaled)

    def _to_targets(self, scaled: Prediction) -> Prediction | TransformedPrediction:
        return scaled if self.link_.name == "identity" else TransformedPrediction(scaled, self.link_)

    @staticmethod
    def _base(prediction: Prediction | TransformedPrediction) -> Prediction:
        """The distribution on the scale on which targets are learned."""
        return prediction.prediction if isinstance(prediction, TransformedPrediction) else prediction

    def _interval(
        self, prediction: Prediction | TransformedPrediction, coverage: float, classes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        lower, upper = self.calibration_.scaled_interval(self._base(prediction), coverage, classes)
        return self.link_.inverse(lower), self.link_.inverse(upper)

    def _classes(self, X: Any) -> Iterable[Any]:
        """Classes of the rows of each chunk by their missing values; None for ever if there are no classes."""
        if self.patterns_ is None:
            return itertools.repeat(None)
        columns = self.columns_.tensors(check_table(self, as_frame(X), reset=False))
        return self.patterns_.classify(columns).split(CHUNK_ROWS)

    def _chunks(self, X: Any) -> Iterator[Prediction]:
        """Standardised predictions of the members, before calibration; every row is predicted here, once."""
        check_is_fitted(self)
        columns = self.columns_.tensors(check_table(self, as_frame(X), reset=False))
        for chunk in _split_rows(columns, CHUNK_ROWS):
            yield self.imputer_.predict(chunk, self._mixture)

    def _draws(self, data: Data) -> Prediction:
        """Calibration rows are predicted as new rows are: with values imputed that are never missing in training."""
        chunks = []
        for batch in batches(data, PREDICTION_BATCH):
            columns = {name: batch[name] for name in self.imputer_.learned}
            chunks.append(self.imputer_.predict(columns, self._mixture))
        return join(chunks, 1)

    def _mixture(self, columns: Batch) -> Prediction:
        if self.components_ is None:
            return mixture(self.members_, _split_rows(columns, PREDICTION_BATCH), self.num_samples)
        size = member_draws(self.num_samples, len(self.members_))
        with single_threaded():
            ensemble = ensemble_moments(self.members_, columns, size)
            limit = max_epistemic(self.link_, self.scale_)
            return self.components_.predict(self.problem_, columns, ensemble, self.num_samples, limit)

    def _joined(self, chunks: list[Tensor]) -> np.ndarray:
        values = torch.cat(chunks).numpy()
        return values[..., 0] if self._axes == 1 else values  # y had no axis of outputs


def _split_rows(columns: Batch, size: int) -> Iterator[Batch]:
    for rows in torch.arange(len(columns["x"])).split(size):
        yield {name: column[rows] for name, column in columns.items()}
