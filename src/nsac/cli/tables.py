"""Tables in files: fit, predict and evaluate their rows."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsac.cli.common import errors, note
from nsac.cli.reading import TableError, is_number

if TYPE_CHECKING:
    from pandas import DataFrame

    from nsac.estimators.evaluation import Evaluation
    from nsac.estimators.regressor import NSACRegressor

MIN_SIMILARITY = 0.65
"""Similarity from which on a column name is suggested instead of another."""
CHUNK_ROWS = 20_000
"""Rows predicted between two updates of the progress bar."""


def find_columns(frame: "DataFrame", names: Iterable[str], path: Path) -> None:
    """Raise an error for a name that is not a column, and suggest the closest one."""
    columns = [str(column) for column in frame.columns]
    for name in names:
        if name not in columns:
            lower = {column.casefold().strip(): column for column in columns}
            near = difflib.get_close_matches(name.casefold().strip(), lower, 1, MIN_SIMILARITY)
            hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
            raise TableError(f"{path} has no column {name!r}.{hint} {_list_columns(columns)}")


def _list_columns(columns: Sequence[str]) -> str:
    more = f", ... ({len(columns)} in all)" if len(columns) > 20 else ""
    return f"Its columns are: {', '.join(columns[:20])}{more}."


def fit_options(target_range: tuple[str, str] | None, effort: str | None, n_jobs: int | None) -> dict[str, Any]:
    """Arguments of the regressor for those options that were given."""
    options: dict[str, Any] = {}
    if target_range is not None:
        for bound in target_range:
            if bound != "none" and not is_number(bound):
                raise TableError(f"`--target-range` must be two numbers, or none. Got {bound!r} instead.")
        options["target_range"] = tuple(None if bound == "none" else float(bound) for bound in target_range)
    if effort is not None:
        options["effort"] = effort
    if n_jobs == 0:
        raise TableError("`--n-jobs` must be above 0, or -1 for all cores. Got 0 instead.")
    if n_jobs is not None:
        options["n_jobs"] = n_jobs
    return options


def fit(
    frame: "DataFrame", path: Path, targets: list[str], settings: dict[str, Any], group: str | None = None,
    weight: str | None = None,
) -> tuple["NSACRegressor", int]:  # fmt: skip
    """A fitted regressor, and the number of rows it was fitted on: those whose targets are known.

    `group` and `weight` are columns that are not inputs.
    """
    import numpy as np

    from nsac.estimators.regressor import NSACRegressor

    known = np.asarray(frame[targets].notna()).all(axis=1)
    if not known.all():
        note(f"{path}: left out {(~known).sum()} rows without a target.")
    frame = frame.iloc[np.flatnonzero(known)]
    if not len(frame):
        raise TableError(f"{path} has no row with a known target. Name another column with `--target`.")
    others = {name: column for name, column in (("groups", group), ("weights", weight)) if column is not None}
    y, X = frame[targets[0]] if len(targets) == 1 else frame[targets], frame.drop(columns=[*targets, *others.values()])
    if not X.shape[1]:
        raise TableError(f"{path} has no columns but the target. Add columns to predict it from.")
    groups = None if group is None else _groups(frame, group, path)
    sample_weight = None if weight is None else _weights(frame, weight, path)
    _note_columns(X, path, settings.get("categorical") or ())
    regressor = NSACRegressor(**settings).fit(X, y, sample_weight, groups)
    regressor.data_ |= others | {"dropped": int((~known).sum())}
    return regressor, len(frame)


def _groups(frame: "DataFrame", name: str, path: Path) -> Any:
    from nsac._checks import row_name

    missing = frame[name].isna().to_numpy()
    if missing.any():
        problem = f"{path}: {row_name(frame, int(missing.argmax()))} has no group: its {name!r} is missing."
        raise TableError(f"{problem} Give it a group of its own, or remove the row.")
    return frame[name].to_numpy()


def _weights(frame: "DataFrame", name: str, path: Path) -> Any:
    import numpy as np

    from nsac._checks import row_name
    from nsac.estimators.cells import find_decimal, to_numbers

    weights = to_numbers(frame[name], name, find_decimal(frame[name]))
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        problem = f"{path}: weights must be finite numbers of at least 0. Got {weights[row]} in column {name!r}"
        raise TableError(f"{problem}, {row_name(frame, row)}. Correct it, or remove the row.")
    return weights


def group_column(estimator: Any) -> list[str]:
    """The column of the groups in training, if a model has any."""
    name = getattr(estimator, "data_", {}).get("groups")
    return [] if name is None else [str(name)]


def _note_columns(X: "DataFrame", path: Path, categorical: Collection[str]) -> None:
    """Print which columns are categories and which are dates; dates as text and separators are warned of in `fit`."""
    from nsac.estimators.cells import find_decimal, is_text
    from nsac.estimators.dates import holds_dates

    categories, dates = [], []
    for name in X.columns:
        column = X[name]
        if name not in categorical and column.dtype.kind == "M":
            dates.append(name)
        elif name in categorical or (is_text(column) and not holds_dates(column) and find_decimal(column) is None):
            categories.append(f"{name} ({column.nunique()})")
    if categories:
        note(f"{path}: categorical columns, with their number of categories: {', '.join(categories)}.")
    if dates:
        note(f"{path}: columns of dates, whose features are year, month, day, weekday and days: {', '.join(dates)}.")


def text_columns(estimator: Any) -> list[str]:
    """Columns that `fit` has read as text: categories, and numbers with separators.

    Categories that were numbers have Python's text of a float.
    """
    columns = estimator.columns_
    categories = getattr(columns, "categories", {})  # a forecaster has none
    texts = [i for i, each in categories.items() if not all(is_number(t) and repr(float(t)) == t for t in each)]
    return [columns.names[i] for i in [*texts, *getattr(columns, "decimals", {})]]


def predict(
    estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str], coverage: Sequence[float],
    quantiles: Sequence[float] = (), ood_score: bool = False,
) -> "DataFrame":  # fmt: skip
    """Predictions, one row per row of the file, after those of its columns that are neither input nor target."""
    import pandas as pd
    from rich.progress import track

    X = features(estimator, frame, path)
    others = frame[[name for name in frame.columns if name not in X.columns and name not in targets]]
    _note_outside(estimator, X, path)
    starts = range(0, len(X), CHUNK_ROWS)
    chunks = [
        estimator.predict_frame(X.iloc[start : start + CHUNK_ROWS], coverage, quantiles)
        for start in track(starts, "predicting", console=errors, disable=len(starts) < 2)
    ]
    predictions = pd.concat(chunks, ignore_index=True)
    if ood_score:
        predictions["ood_score"] = estimator.ood_score(X)
    names: dict[str, str] = {}
    taken = {*others.columns, *predictions.columns}
    for name in others.columns.intersection(predictions.columns):
        names[name] = f"{name}_file"
        while names[name] in taken:
            names[name] += "_file"
        taken.add(names[name])
        note(f"{path}: column {name!r} is written as {names[name]!r}, because {name!r} is a column of the predictions.")
    others.columns = [names.get(name, name) for name in others.columns]
    return pd.concat([others.reset_index(drop=True), predictions], axis=1)


def _note_outside(estimator: "NSACRegressor", X: "DataFrame", path: Path) -> None:
    if estimator.components_ is None:
        return
    outside = int(estimator.outside_range(X).sum())
    if outside:
        problem = "a number notably outside the range of the training rows, where predictions extrapolate"
        note(f"{path}: {outside} of {len(X)} rows have {problem}.")


def evaluate(estimator: "NSACRegressor", frame: "DataFrame", path: Path, targets: list[str]) -> list["Evaluation"]:
    """One per target; the baseline is the mean and standard deviation of the training rows."""
    import numpy as np
    import torch

    from nsac.estimators.cells import find_decimal, read_numbers, to_numbers
    from nsac.estimators.evaluation import evaluate_rows
    from nsac.uncertainty import Prediction

    if len(targets) != len(estimator.centre_):
        raise TableError(f"The model predicts {len(estimator.centre_)} targets. Name them, in order, with `--target`.")
    X = features(estimator, frame, path)
    for name in targets:
        if name not in frame.columns:
            problem = f"{path} has no column {name!r}, the target of the model, so there is nothing to compare with."
            raise TableError(f"{problem} Add it, or name another with `--target`. {_list_columns(list(frame.columns))}")
    p: Any = estimator.predict_distribution(X)  # with a link, a TransformedPrediction, which has the same interface
    lower, upper = estimator.conformal_interval(p, 0.9, X)
    evaluations = []
    for i, name in enumerate(targets):
        decimal = find_decimal(frame[name])
        infinite = np.isinf(read_numbers(frame[name], decimal)[0])
        if infinite.any():
            note(f"{path}: left out {infinite.sum()} rows whose {name!r} is infinite.")
        y = torch.tensor(to_numbers(frame[name].mask(infinite), name, decimal))
        missing = int(y.isnan().sum() - infinite.sum())
        if missing:
            note(f"{path}: left out {missing} rows without a value of {name!r}.")
        facts = {"mean": estimator.centre_, "std": estimator.scale_} | estimator.data_  # equal without a link
        mean, std = torch.full_like(y, float(facts["mean"][i])), torch.full_like(y, float(facts["std"][i]))
        output = (slice(None), i) if len(p.shape) == 2 else (slice(None),)
        interval = (lower[output], upper[output])
        baseline = Prediction.gaussian(mean, std)
        evaluations.append(evaluate_rows(name, p[output], interval, y, {"the training mean": baseline}))
    return evaluations


def features(estimator: Any, frame: "DataFrame", path: Path) -> "DataFrame":
    """The columns that the estimator reads, in their order."""
    names = list(getattr(estimator, "feature_names_in_", []))
    if not names:
        raise TableError(
            "The model was fitted to columns without names, so a file cannot be matched. Use it in Python."
        )
    find_columns(frame, names, path)
    return frame.loc[:, names]
