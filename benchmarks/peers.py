"""Regressors with predicted distributions, each with its own defaults and one thread: the peers of `tables.py`.

A method is a function of training rows, their targets and a seed. It returns a function from rows to an `Outcome`.
Methods that predict a point hold out a calibration set; it gives the interval (split conformal), and its residuals are
the distribution. Packages are imported where they are used.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from nsac import NSACRegressor, uncertainty
from nsac.uncertainty import Prediction, conformal_margin

COVERAGE = 0.9
QUANTILES = np.arange(0.025, 1, 0.05)
"""Midpoints of twenty equal intervals of levels: twice their mean pinball loss is the CRPS by the midpoint rule."""
MAX_CATEGORIES = 50
"""Largest number of one-hot columns of a category; rarer ones share a column."""
GP_TUNING_ROWS = 1000
"""Largest number of rows that the hyperparameters of the Gaussian process are fitted on."""
GP_ITERATIONS = 50

Array = np.ndarray
Frame = pd.DataFrame


class Outcome(NamedTuple):
    """What is scored of the predicted distributions of some rows."""

    mean: Array
    lower: Array  # ends of the interval of nominal coverage 90 %
    upper: Array
    nll: Callable[[Array], float]  # mean over rows, given the observed values
    crps: Callable[[Array], float]


Predict = Callable[[Frame], Outcome]


# Distributions


def gaussian(mean: Array, std: Array) -> Outcome:
    p = Prediction.gaussian(torch.as_tensor(mean), torch.as_tensor(std))
    return from_prediction(p, *p.interval(COVERAGE))


def from_prediction(p: Any, lower: torch.Tensor, upper: torch.Tensor) -> Outcome:
    def nll(y: Array) -> float:
        return float(uncertainty.nll(p, torch.as_tensor(y)))

    def crps(y: Array) -> float:
        return float(uncertainty.crps(p, torch.as_tensor(y)))

    return Outcome(p.mean.numpy(), lower.numpy(), upper.numpy(), nll, crps)


def from_residuals(mean: Array, residuals: Array) -> Outcome:
    """The distribution of held-out residuals around each point prediction; the likelihood is that of a Gaussian."""
    margin = margin_of(np.abs(residuals))
    std = np.full(len(mean), max(np.sqrt(np.mean(residuals**2)), np.finfo(float).tiny))

    def crps(y: Array) -> float:
        return ensemble_crps(y - mean, residuals)

    return Outcome(mean, mean - margin, mean + margin, gaussian(mean, std).nll, crps)


def ensemble_crps(y: Array, values: Array) -> float:
    r"""Mean CRPS of an empirical distribution, $E|X - y| - \frac12 E|X - X'|$, the same for every `y`."""
    values = np.sort(values)
    n = len(values)
    half_spread = np.sum((2 * np.arange(1, n + 1) - n - 1) * values) / n**2
    sums = np.concatenate([[0.0], values.cumsum()])
    below = np.searchsorted(values, y)
    distance = (y * (2 * below - n) + sums[-1] - 2 * sums[below]) / n
    return float(np.mean(distance) - half_spread)


def margin_of(scores: Array) -> float:
    return conformal_margin(torch.as_tensor(scores), COVERAGE).item()


def conformal(fit: Callable[[Frame, Array], Callable[[Frame], Array]], x: Frame, y: Array, seed: int) -> Predict:
    """A point regressor with split conformal intervals."""
    rest, held_out = hold_out(len(y), seed)
    predict = fit(x.iloc[rest], y[rest])
    residuals = y[held_out] - predict(x.iloc[held_out])
    return lambda rows: from_residuals(predict(rows), residuals)


def hold_out(rows: int, seed: int) -> tuple[Array, Array]:
    """Training and calibration rows: a tenth calibrates, at least 40 if that is at most a fifth, at most 2000."""
    size = min(max(round(0.1 * rows), min(40, rows // 5), 1), 2000)
    order = np.random.default_rng(seed).permutation(rows)
    return order[size:], order[:size]


# Columns


def expand_dates(x: Frame) -> Frame:
    """Columns of ISO dates as year, month, day and days since 1970; other text stays text, and all else is float."""
    columns = {}
    for name, column in x.items():
        if pd.api.types.is_numeric_dtype(column):
            columns[name] = column.astype(float)
        elif column.notna().any() and column.dropna().astype(str).str.match(r"\d{4}-\d{2}-\d{2}").all():
            dates = pd.to_datetime(column, format="ISO8601", utc=True).dt
            days = (dates.tz_localize(None) - pd.Timestamp(0)) / pd.Timedelta("1D")
            parts = {"year": dates.year, "month": dates.month, "day": dates.day, "days": days}
            columns |= {f"{name} {part}": values.astype(float) for part, values in parts.items()}
        else:
            columns[name] = column.astype(object)
    return pd.DataFrame(columns, index=x.index)


def texts(x: Frame) -> list[str]:
    return [name for name in x if x[name].dtype == object]


def numbers(x: Frame) -> list[str]:
    return [name for name in x if x[name].dtype != object]


class Categories:
    """Text as pandas categories of the training rows; a category that is new later is missing."""

    def __init__(self, x: Frame):
        self.dtypes = {name: pd.CategoricalDtype(sorted(x[name].dropna().unique())) for name in texts(x)}

    def __call__(self, x: Frame) -> Frame:
        known = {name: x[name].where(x[name].isin(dtype.categories)) for name, dtype in self.dtypes.items()}
        return x.assign(**{name: column.astype(self.dtypes[name]) for name, column in known.items()})


def impute(x: Frame) -> Callable[[Frame], Frame]:
    """Medians of the training rows for missing numbers."""
    medians = x[numbers(x)].median().fillna(0.0)
    return lambda rows: rows.fillna(medians)


def encoded(encoder: Any, x: Frame) -> Callable[[Frame], Array]:
    """Text columns through an encoder of scikit-learn, which refuses a table without any."""
    names = texts(x)
    if not names:
        return lambda rows: np.empty((len(rows), 0))
    encoder.fit(x[names])
    return lambda rows: encoder.transform(rows[names])


# Methods


def nsac(x: Frame, y: Array, seed: int) -> Predict:
    regressor = NSACRegressor(random_state=seed).fit(x, y)

    def predict(rows: Frame) -> Outcome:
        p = regressor.predict_distribution(rows)
        return from_prediction(p, *regressor.conformal_interval(p, COVERAGE, rows))

    return predict


def naive(x: Frame, y: Array, seed: int) -> Predict:
    """The mean and the distribution of the training targets, for every row."""
    mean = y.mean()
    lower, upper = np.quantile(y, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])

    def predict(rows: Frame) -> Outcome:
        out = from_residuals(np.full(len(rows), mean), y - mean)
        return out._replace(lower=np.full(len(rows), lower), upper=np.full(len(rows), upper))

    return predict


def catboost(x: Frame, y: Array, seed: int) -> Predict:
    return conformal(lambda x, y: fit_catboost(x, y, seed, "RMSE"), x, y, seed)


def catboost_uncertainty(x: Frame, y: Array, seed: int) -> Predict:
    predict = fit_catboost(x, y, seed, "RMSEWithUncertainty")

    def outcome(rows: Frame) -> Outcome:
        mean, variance = predict(rows).T
        return gaussian(mean, np.sqrt(variance))

    return outcome


def fit_catboost(x: Frame, y: Array, seed: int, loss: str) -> Callable[[Frame], Array]:
    """Text is a native category of CatBoost, missing text one more category; missing numbers are its own matter."""
    from catboost import CatBoostRegressor

    options: dict[str, Any] = {"thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = CatBoostRegressor(loss_function=loss, random_seed=seed, cat_features=texts(x), **options)

    def prepare(rows: Frame) -> Frame:
        return rows.assign(**{name: rows[name].fillna("missing").astype(str) for name in texts(x)})

    model.fit(prepare(x), y)
    return lambda rows: model.predict(prepare(rows), thread_count=1)


def lightgbm(x: Frame, y: Array, seed: int) -> Predict:
    """One model per quantile level and one of the mean; levels and interval are calibrated on held-out rows (CQR)."""
    from lightgbm import LGBMRegressor

    rest, held_out = hold_out(len(y), seed)
    prepare = Categories(x.iloc[rest])
    inputs = prepare(x.iloc[rest])
    options: dict[str, Any] = {"random_state": seed, "n_jobs": 1, "verbose": -1}
    mean = LGBMRegressor(**options).fit(inputs, y[rest])
    ends = [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]
    models = [LGBMRegressor(objective="quantile", alpha=q, **options).fit(inputs, y[rest]) for q in (*QUANTILES, *ends)]

    def quantiles(rows: Frame) -> Array:
        return np.stack([np.asarray(model.predict(rows)) for model in models], 1)

    known, found = y[held_out], quantiles(prepare(x.iloc[held_out]))
    margin = margin_of(np.maximum(found[:, -2] - known, known - found[:, -1]))
    shifts = [np.quantile(known - found[:, i], q) for i, q in enumerate(QUANTILES)]
    std = np.maximum((found[:, :-2] + shifts).std(1), 1e-3 * y.std())
    scale = np.sqrt(np.mean(((known - np.asarray(mean.predict(prepare(x.iloc[held_out])))) / std) ** 2))

    def predict(rows: Frame) -> Outcome:
        rows = prepare(rows)
        values, centre = quantiles(rows), np.asarray(mean.predict(rows))
        grid = np.sort(values[:, :-2] + shifts, 1)
        std = scale * np.maximum(grid.std(1), 1e-3 * y.std())
        lower, upper = values[:, -2] - margin, values[:, -1] + margin
        return Outcome(centre, lower, np.maximum(lower, upper), gaussian(centre, std).nll, lambda y: grid_crps(y, grid))

    return predict


def grid_crps(y: Array, grid: Array) -> float:
    """Mean CRPS of predicted quantiles at the levels `QUANTILES`."""
    error = y[:, None] - grid
    return float(2 * np.mean(np.maximum(QUANTILES * error, (QUANTILES - 1) * error)))


def ngboost(x: Frame, y: Array, seed: int) -> Predict:
    """Text becomes ordinal codes, missing numbers medians."""
    from ngboost import NGBRegressor
    from sklearn.preprocessing import OrdinalEncoder

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)
    encode, fill = encoded(encoder, x), impute(x)

    def prepare(rows: Frame) -> Array:
        return np.hstack([fill(rows[numbers(x)]).to_numpy(), encode(rows)])

    model = NGBRegressor(random_state=seed, verbose=False).fit(prepare(x), y)

    def predict(rows: Frame) -> Outcome:
        found = model.pred_dist(prepare(rows))
        return gaussian(found.loc, found.scale)

    return predict


def gp(x: Frame, y: Array, seed: int) -> Predict:
    """A Gaussian process with a Matern 3/2 kernel, one length scale per column and Gaussian noise.

    Hyperparameters maximise the marginal likelihood of at most 1000 rows.
    """
    from scipy.optimize import minimize
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MAX_CATEGORIES, sparse_output=False)
    encode, fill = encoded(encoder, x), impute(x)
    centre, scale = fill(x[numbers(x)]).mean().to_numpy(), fill(x[numbers(x)]).std().to_numpy()
    scale = np.where(scale > 0, scale, 1.0)
    widths = [columns_of(encoder, i) for i in range(len(texts(x)))]
    column = torch.as_tensor(np.repeat(np.arange(len(numbers(x)) + len(widths)), [1] * len(numbers(x)) + widths))

    def prepare(rows: Frame) -> torch.Tensor:
        standard = (fill(rows[numbers(x)]).to_numpy() - centre) / scale
        return torch.as_tensor(np.hstack([standard, encode(rows)]))

    inputs, targets = prepare(x), torch.as_tensor((y - y.mean()) / y.std())[:, None]
    n = len(numbers(x)) + len(widths)

    def matern(a: torch.Tensor, b: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
        a, b = a / log[column].exp(), b / log[column].exp()
        squared = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
        r = 3**0.5 * squared.clamp(min=1e-12).sqrt()
        return (2 * log[n]).exp() * (1 + r) * torch.exp(-r)

    def factor(x: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
        noise = (2 * log[n + 1]).exp() + 1e-6
        return torch.linalg.cholesky(matern(x, x, log) + noise * torch.eye(len(x), dtype=x.dtype))

    few = torch.as_tensor(np.random.default_rng(seed).permutation(len(y))[:GP_TUNING_ROWS])

    def objective(values: Array) -> tuple[float, Array]:
        log = torch.tensor(values, requires_grad=True)
        root = factor(inputs[few], log)
        fit = torch.linalg.solve_triangular(root, targets[few], upper=False).square().sum() / 2
        loss = (fit + root.diagonal().log().sum()) / len(few)
        loss.backward()
        return loss.item(), log.grad.numpy()  # pyright: ignore[reportOptionalMemberAccess]

    start = np.concatenate([np.full(n, np.log(n) / 2), [0.0, np.log(0.3)]])
    bounds = [(-5.0, 8.0)] * n + [(-3.0, 4.0), (-6.0, 1.0)]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": GP_ITERATIONS})
    log = torch.as_tensor(found.x)
    root = factor(inputs, log)
    weights = torch.cholesky_solve(targets, root)

    def predict(rows: Frame) -> Outcome:
        cross = matern(prepare(rows), inputs, log)
        explained = torch.linalg.solve_triangular(root, cross.T, upper=False).square().sum(0)
        variance = ((2 * log[n]).exp() - explained).clamp(min=0) + (2 * log[n + 1]).exp() + 1e-6
        return gaussian((cross @ weights)[:, 0].numpy() * y.std() + y.mean(), variance.sqrt().numpy() * y.std())

    return predict


def columns_of(encoder: Any, i: int) -> int:
    """Number of one-hot columns of the i-th category."""
    rare = encoder.infrequent_categories_[i]
    return len(encoder.categories_[i]) if rare is None else len(encoder.categories_[i]) - len(rare) + 1


def realmlp(x: Frame, y: Array, seed: int) -> Predict:
    from pytabkit import RealMLP_TD_Regressor

    return fit_network(RealMLP_TD_Regressor, x, y, seed)


def tabm(x: Frame, y: Array, seed: int) -> Predict:
    from pytabkit import TabM_D_Regressor

    return fit_network(TabM_D_Regressor, x, y, seed)


def fit_network(cls: Any, x: Frame, y: Array, seed: int) -> Predict:
    """A network of pytabkit, with native categories and medians for missing numbers."""

    def fit(x: Frame, y: Array) -> Callable[[Frame], Array]:
        categories, fill = Categories(x.fillna(dict.fromkeys(texts(x), "missing"))), impute(x)

        def prepare(rows: Frame) -> Frame:
            return categories(fill(rows.fillna(dict.fromkeys(texts(x), "missing"))))

        model = cls(device="cpu", random_state=seed, n_threads=1)
        model.fit(prepare(x), y, cat_col_names=texts(x))
        return lambda rows: np.asarray(model.predict(prepare(rows)), dtype=float).reshape(len(rows))

    return conformal(fit, x, y, seed)


class Method(NamedTuple):
    """A method, the package it needs, and the largest number of training rows; of more, a random sample is used."""

    fit: Callable[[Frame, Array, int], Predict]
    package: str
    max_rows: int | None = None


METHODS = {
    "nsac": Method(nsac, "nsac"),
    "catboost": Method(catboost, "catboost"),
    "catboost-uncertainty": Method(catboost_uncertainty, "catboost"),
    "lightgbm": Method(lightgbm, "lightgbm"),
    "gp": Method(gp, "sklearn", 2000),
    "ngboost": Method(ngboost, "ngboost"),
    "realmlp": Method(realmlp, "pytabkit", 10_000),
    "tabm": Method(tabm, "pytabkit", 10_000),
    "naive": Method(naive, "sklearn"),
}
