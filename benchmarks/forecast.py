"""Scores of `NSACForecaster` with its defaults, beside its peers and baselines, on the same forecast origins.

    python benchmarks/forecast.py --data jena-spring jena-autumn --methods nsac lightgbm ridge --out results/forecast

Rows before the test part are fitted, and every forecast whose steps all lie in the test part is scored; lookback 48
steps, horizon 24. Scores are in units of the target's range in the first rows.

- `ettm1`, `jena`: the last tenth is the test part, the range is that of the first eight tenths.
- `ettm1-15000`: the first 15,000 rows; the last tenth is the test part, the range is that of the fitted rows.
- `jena-spring`, `-summer`, `-autumn`, `-winter`: hourly means of the year up to the end of a season's test part; the
  range is that of the fitted rows. Choices are made on spring and autumn, summer and winter are reported.
- The suffix `-holes` leaves out 30 % of the rows, `-holes70` 70 %, of the whole series, at random. Ridge sees values
  interpolated up to the last known row, the other peers the last known values; peers are scored at all values of the
  test part, the forecaster at those that were not left out. `aged` is the forecaster with the complete series up to the
  last known row, and without those after it: what the age of the last value costs, however the gaps are treated.

`crps_20` is twice the mean pinball loss at 20 quantile levels, for every method (of `nsac` every fifth of more than
100,000); `crps_20_observed` that of origins whose row was observed, from which `predict` counts lead times; `crps` the
exact one of `nsac`, of every fifth forecast. `coverage_90` is the coverage of the intervals as fitted, `adaptive_90`
that of intervals that adapt online. `fit_cpu` are CPU seconds of one thread, children included. There is one JSON
record per data set and seed; methods that it has already are not computed again. The packages of the peers are in the
extra `peers`.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from forecast_peers import METHODS, Forecasts, Series
from peers import QUANTILES, grid_crps
from threadpoolctl import threadpool_limits

from nsac import NSACForecaster
from nsac._io import write_atomic
from nsac.lab.datasets import load_ettm1, load_jena
from nsac.lab.datasets.weather import JENA_COLUMNS
from nsac.uncertainty.scores import crps, nll

LOOKBACK, HORIZON = 48, 24
"""Steps."""
REMOVED_SHARE = {"holes": 0.3, "holes70": 0.7}
"""Share of the rows that are left out, by suffix."""
STRIDE, MANY_FORECASTS = 5, 100_000
"""The exact CRPS of a mixture is slow: it is that of every fifth forecast, and so is `crps_20` of many. All lead times
take part, as their number is no multiple of five."""
OURS = "nsac"
AGED, MAX_AGE = "aged", 16
"""The forecaster with complete rows up to the last known one, and the steps that this row may be old, at most."""
CHEAP = (OURS, "ridge", "seasonal", "persistence")
SHORT_ROWS = 15_000
SEASONS = {  # first day of the test part, and the day after the last
    "spring": ("2020-04-01", "2020-05-16"),
    "summer": ("2020-07-15", "2020-09-01"),
    "autumn": ("2020-09-15", "2020-11-01"),
    "winter": ("2020-11-16", "2021-01-01"),
}
WITH_PEERS = [f"ettm1-{SHORT_ROWS}", *(f"jena-{season}" for season in SEASONS)]
SPARSE = [f"{name}-{each}" for name in (WITH_PEERS[0], "jena-summer", "jena-winter") for each in ("holes", "holes70")]
WHOLE = ["ettm1", "jena"]
WHOLE_SPARSE = [f"{name}-{each}" for name in WHOLE for each in ("holes", "holes70")]
DATA = [*WHOLE, *WHOLE_SPARSE, *WITH_PEERS, *SPARSE]
SCORES = ("crps_20", "crps", "mse", "mae", "nll", "coverage_90", "width_90", "adaptive_90", "fit_cpu")
"""Columns of the printed table."""


class Data(NamedTuple):
    """A series and its test part, which ends with the last row."""

    frame: pd.DataFrame  # with the column `date`
    target: str
    first: pd.Timestamp  # of the test part
    span: float  # range of the target, the unit of the scores
    step: pd.Timedelta


def load(name: str) -> Data:
    """The complete series."""
    name = split_name(name)[0]
    if name.startswith("ettm1"):
        frame, target, step = load_ettm1(), "OT", pd.Timedelta("15min")
        frame = frame[:SHORT_ROWS] if name in WITH_PEERS else frame
    else:
        frame = load_jena()[["date", *JENA_COLUMNS]].drop_duplicates("date").reset_index(drop=True)
        target, step = "T (degC)", pd.Timedelta("10min")
    season = name.removeprefix("jena-")
    if season in SEASONS:
        first, stop = map(pd.Timestamp, SEASONS[season])
        frame, step = frame.resample("1h", on="date").mean().reset_index(), pd.Timedelta("1h")
        frame = frame[frame["date"] < stop]
    else:
        first = frame["date"][round(0.9 * len(frame))]
    unit = frame["date"] < first
    if name not in WITH_PEERS:
        unit = frame.index < round(0.8 * len(frame))
    return Data(frame, target, first, float(np.ptp(frame[target][unit].dropna())), step)


def split_name(name: str) -> tuple[str, str | None]:
    """The name of the complete series, and the suffix for what is left out."""
    base, _, suffix = name.rpartition("-")
    return (base, suffix) if suffix in REMOVED_SHARE else (name, None)


def remove(frame: pd.DataFrame, name: str, seed: int) -> pd.DataFrame:
    """The series without the rows that its name leaves out."""
    random, suffix = np.random.default_rng(seed), split_name(name)[1]
    if suffix is None:
        return frame
    return frame[random.random(len(frame)) >= REMOVED_SHARE[suffix]].reset_index(drop=True)


def regular(data: Data, known: pd.DataFrame) -> Series:
    """For the peers, at every step: the last known values, and values interpolated in time."""
    dates = data.frame.set_index("date").asfreq(data.step).index
    sparse = known.set_index("date").reindex(dates)
    frame = sparse.ffill().bfill()
    columns = [data.target, *frame.columns.drop(data.target)]
    fitted = int((frame.index < data.first).sum())
    season = int(pd.Timedelta("1D") / data.step)
    parts = sparse[columns].iloc[:fitted], sparse[columns]  # fitted rows know nothing of the test part
    before, between = (each.interpolate("time", limit_direction="both").to_numpy() for each in parts)
    between = np.concatenate([before, between[fitted:]])
    last = np.maximum.accumulate(np.where(sparse[data.target].notna(), np.arange(len(frame)), 0))
    origins = np.arange(fitted - 1, len(frame) - HORIZON)
    return Series(frame[columns], fitted, origins, LOOKBACK, HORIZON, season, between, last)


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


def score_forecaster(name: str, seed: int, options: dict[str, Any]) -> dict[str, float]:
    """Scores of the forecaster."""
    data = load(name)
    frame, span = remove(data.frame, name, seed), data.span
    started = cpu_seconds()
    model = NSACForecaster(HORIZON, LOOKBACK, data.target, "date", random_state=seed, **options)
    model.fit(frame[frame["date"] < data.first])
    fitted = cpu_seconds()
    forecasts = model.historical_forecasts(frame, since=data.first)
    predicted = cpu_seconds()
    last = data.frame["date"].iloc[-1].as_unit("ns").value
    known = ~forecasts.y.isnan() & torch.as_tensor(forecasts.times[:, -1:] <= last)
    p, y = forecasts.prediction[known], forecasts.y[known]
    covered = (forecasts.lower <= forecasts.y) & (forecasts.y <= forecasts.upper)
    report = model.update_report(frame)
    some = torch.arange(0, len(y), STRIDE)
    thin = some if len(y) > MANY_FORECASTS else torch.arange(len(y))
    quantiles, y_thin = p[thin].quantile(QUANTILES.tolist()).movedim(0, -1).numpy(), y[thin].numpy()
    rows = frame.dropna(subset=data.target)["date"].to_numpy("datetime64[ns]").astype(np.int64)
    observed = np.isin(forecasts.times[:, 0] - data.step.value, rows)
    recent = torch.from_numpy(observed)[:, None].expand_as(known)[known][thin].numpy()
    return {
        "mse": (p.mean - y).square().mean().item() / span**2,
        "mae": (p.mean - y).abs().mean().item() / span,
        "crps_20": grid_crps(y_thin, quantiles) / span,
        "crps_20_observed": grid_crps(y_thin[recent], quantiles[recent]) / span,
        "crps": crps(p[some], y[some]) / span,
        "nll": nll(p, y) - np.log(span),
        "coverage_90": covered[known].double().mean().item(),
        "width_90": (forecasts.upper - forecasts.lower)[known].mean().item() / span,
        "adaptive_90": float(np.average(report["coverage_90"], weights=report["forecasts"])),
        "adaptive_90_least": report["coverage_90"].min(),
        "adaptive_90_most": report["coverage_90"].max(),
        "fit_cpu": fitted - started,
        "predict_cpu": predicted - fitted,
        "forecasts": len(y),
    }  # pyright: ignore[reportReturnType]


def score_aged(name: str, seed: int, options: dict[str, Any]) -> dict[str, float]:
    """CRPS of the forecaster of the complete series from the last row that is known, and from the origin itself."""
    data = load(name)
    series = regular(data, remove(data.frame, name, seed))
    started = cpu_seconds()
    model = NSACForecaster(HORIZON + MAX_AGE, LOOKBACK, data.target, "date", random_state=seed, **options)
    model.fit(data.frame[data.frame["date"] < data.first])
    fitted = cpu_seconds()
    forecasts = model.historical_forecasts(data.frame, since=data.first)
    dates = series.values.index.as_unit("ns").asi8
    row = dict(zip((forecasts.times[:, 0] - data.step.value).tolist(), range(len(forecasts.y)), strict=True))
    age = np.minimum(series.origins - series.last[series.origins], MAX_AGE)
    now, then = (
        np.array([row.get(each, -1) for each in dates[ends]]) for ends in (series.origins, series.origins - age)
    )
    both = np.flatnonzero((now >= 0) & (then >= 0))
    place = np.arange(0, len(both) * HORIZON, STRIDE)
    chosen, lead = both[place // HORIZON], place % HORIZON

    def score(rows: np.ndarray, leads: np.ndarray) -> float:
        p, y = forecasts.prediction[rows, leads], forecasts.y[rows, leads]
        known = ~y.isnan()
        quantiles = p[known].quantile(QUANTILES.tolist()).movedim(0, -1)
        return grid_crps(y[known].numpy(), quantiles.numpy()) / data.span

    found = {"crps_20": score(then[chosen], lead + age[chosen]), "crps_20_current": score(now[chosen], lead)}
    return found | {"fit_cpu": fitted - started, "predict_cpu": cpu_seconds() - fitted, "forecasts": len(place)}


def score_peer(name: str, seed: int, method: str) -> dict[str, float]:
    """Scores of a peer or a baseline; all values of the test part are targets, also those that it does not see."""
    data = load(name)
    series = regular(data, remove(data.frame, name, seed))
    started = cpu_seconds()
    predict = METHODS[method].fit(series, seed)
    fitted = cpu_seconds()
    forecasts = predict(series.origins)
    predicted = cpu_seconds()
    return score(series, data, forecasts) | {"fit_cpu": fitted - started, "predict_cpu": predicted - fitted}


def score(series: Series, data: Data, forecasts: Forecasts) -> dict[str, float]:
    """Scores of values that were observed."""
    ends = series.origins[:: forecasts.every]
    observed = data.frame.set_index("date").asfreq(data.step)[data.target].to_numpy()
    y = observed[ends[:, None] + np.arange(1, HORIZON + 1)]
    known = ~np.isnan(y)
    y, mean, quantiles = y[known], forecasts.mean[known], forecasts.quantiles[known]
    lower, upper = quantiles[:, len(QUANTILES) :].T
    recent = np.broadcast_to((series.last[ends] == ends)[:, None], known.shape)[known]
    return {
        "mse": float(np.mean((mean - y) ** 2)) / data.span**2,
        "mae": float(np.mean(np.abs(mean - y))) / data.span,
        "crps_20": grid_crps(y, quantiles[:, : len(QUANTILES)]) / data.span,
        "crps_20_observed": grid_crps(y[recent], quantiles[recent, : len(QUANTILES)]) / data.span,
        "coverage_90": float(np.mean((lower <= y) & (y <= upper))),
        "width_90": float(np.mean(upper - lower)) / data.span,
        "forecasts": len(y),
        "every": forecasts.every,
    }


def run(name: str, seed: int, method: str, options: dict[str, Any]) -> dict[str, float]:
    torch.set_num_threads(1)
    with threadpool_limits(1):
        if method == OURS:
            return score_forecaster(name, seed, options)
        return score_aged(name, seed, options) if method == AGED else score_peer(name, seed, method)


def complete(path: Path, record: dict[str, Any], methods: list[str], run: Callable[[str], dict[str, float]]) -> None:
    """Add what the record at `path` does not have, and write it after each method."""
    if path.exists():
        record = json.loads(path.read_text())
    for method in methods:
        package = OURS if method in (OURS, AGED) else METHODS[method].package
        if method in record["scores"]:
            continue
        if importlib.util.find_spec(package) is None:
            print(f"{method} needs the package {package} of the extra `peers`: skipped.", file=sys.stderr)
            continue
        record["scores"][method] = run(method)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        record.setdefault("made_by", {})[method] = {"commit": commit, package: version(package)}
        write_atomic(path, (json.dumps(record, indent=1) + "\n").encode())


def markdown_of(folder: Path, names: Sequence[str] = WITH_PEERS, methods: Sequence[str] = (OURS, *METHODS)) -> str:
    """CRPS, MSE, coverage and CPU seconds of methods on these data sets, mean over seeds."""
    columns, cells = [], {method: [] for method in methods}
    for name in names:
        paths = [path for path in sorted(folder.glob("*.json")) if re.fullmatch(rf"{name}-\d+", path.stem)]
        records = [json.loads(path.read_text())["scores"] for path in paths]
        if not records:
            continue
        columns.append(name)
        best = min(each[method]["crps_20"] for each in records for method in each)
        for method, row in cells.items():
            found = pd.DataFrame([each[method] for each in records if method in each])
            row.append(_cell(found.mean(), best) if len(found) else "")
    lines = [["method", *columns], ["---"] * (1 + len(columns)), *([method, *row] for method, row in cells.items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def tables_of(folder: Path) -> list[str]:
    """The tables of the documentation."""
    return [markdown_of(folder, WHOLE, CHEAP), markdown_of(folder), sparse_markdown_of(folder)]


def sparse_markdown_of(folder: Path) -> str:
    """CRPS of series with rows removed, and that of the forecaster over its own on the complete series; seed 0.

    The last columns are the cost of age alone, and forecasts from rows that were not removed.
    """
    head = ["series", "removed", *CHEAP, f"{OURS}, to complete", "age alone", "from known rows"]
    lines = [head, ["---"] * len(head)]
    for name in [*SPARSE, *WHOLE_SPARSE]:
        base, suffix = split_name(name)
        paths = [folder / f"{each}-0.json" for each in (name, base)]
        if not all(path.exists() for path in paths):
            continue
        sparse, full = (json.loads(path.read_text())["scores"] for path in paths)
        found = {method: sparse[method]["crps_20"] for method in CHEAP}
        cells = [f"{value:.4f}" if value > min(found.values()) else f"**{value:.4f}**" for value in found.values()]
        to_all, to_known = (sparse[OURS][key] / full[OURS]["crps_20"] for key in ("crps_20", "crps_20_observed"))
        aged = sparse[AGED]["crps_20"] / sparse[AGED]["crps_20_current"]
        changes = [f"{100 * (each - 1):+.1f} %" for each in (to_all, aged, to_known)]
        lines.append([base, f"{REMOVED_SHARE[str(suffix)]:.0%}".replace("%", " %"), *cells, *changes])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(scores: pd.Series, best: float) -> str:
    crps_20 = f"{scores['crps_20']:.4f}"
    crps_20 = f"**{crps_20}**" if scores["crps_20"] == best else crps_20
    return f"{crps_20} / {1000 * scores['mse']:.2f} / {scores['coverage_90']:.2f} / {scores['fit_cpu']:.0f}"


def main(given: list[str] | None = None) -> None:
    """Compute the scores that do not exist, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA, metavar="NAME", help=", ".join(DATA))
    every = [OURS, AGED, *METHODS]
    parser.add_argument("--methods", nargs="+", default=every, choices=every, metavar="NAME", help=", ".join(every))
    parser.add_argument("--out", type=Path, default=Path("results/forecast"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--markdown", action="store_true", help="print the tables of the documentation, compute nothing"
    )
    parser.add_argument("--options", type=json.loads, default={}, help="arguments of the forecaster, as JSON")
    arguments = parser.parse_args(given)
    if arguments.markdown:
        return print(*tables_of(arguments.out), sep="\n", end="")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.data:
        path = arguments.out / f"{name}-{arguments.seed}.json"
        record = {"data": name, "seed": arguments.seed, "options": arguments.options, "scores": {}}
        methods = [each for each in arguments.methods if each != AGED or split_name(name)[1]]
        complete(path, record, methods, lambda method, name=name: run(name, arguments.seed, method, arguments.options))
        if path.exists():
            table = pd.DataFrame(json.loads(path.read_text())["scores"]).T
            columns = [key for key in SCORES if key in table]
            print(f"\n{name}\n{table[columns].to_string(float_format='%.5f')}", flush=True)


if __name__ == "__main__":
    main()
