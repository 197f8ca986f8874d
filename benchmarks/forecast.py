"""Scores of `NSACForecaster` with its defaults, beside the persistence and ridge baselines.

    python benchmarks/forecast.py --data ettm1 jena ettm1-holes ettm1-cells --out results/forecast

The first nine tenths of a series are fitted, and every forecast whose steps all lie in the last tenth is scored, with
the target scaled from 0 to 1 by the first eight tenths. The suffix `-holes` leaves out 30 % of the rows, `-cells` 30 %
of the values, of the whole series. `coverage_90` is the coverage of the intervals as fitted, `adaptive_90` that of
intervals that adapt online. There is one JSON record per data set; existing records are not computed again.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from nsac import NSACForecaster
from nsac.lab.datasets import load_ettm1, load_jena
from nsac.lab.datasets.weather import JENA_COLUMNS
from nsac.lab.tasks.forecasts import Setting, build
from nsac.methods import METHODS, fit
from nsac.uncertainty.scores import crps, nll

LOOKBACK, HORIZON = 48, 24
"""Steps."""
WINDOW = (LOOKBACK, HORIZON)
POWERS = {"mse": 2, "mae": 1, "crps": 1, "coverage_90": 0, "width_90": 1}
"""How scores change with the unit of the target."""
REMOVED_SHARE = 0.3
"""Share of the rows, or of the values, that are left out."""
CRPS_STRIDE = 5
"""The CRPS is that of every fifth forecast: it is slow for a mixture."""
SCORES = ("mse", "mae", "crps", "nll", "coverage_90", "width_90", "adaptive_90", "fit_seconds")
"""Columns of the printed table."""


def load(name: str) -> tuple[pd.DataFrame, str, pd.Timedelta]:
    """Complete series, target and step."""
    if name.startswith("ettm1"):
        return load_ettm1(), "OT", pd.Timedelta("15min")
    frame = load_jena()[["date", *JENA_COLUMNS]]
    return frame.drop_duplicates("date").reset_index(drop=True), "T (degC)", pd.Timedelta("10min")


def remove(frame: pd.DataFrame, name: str, seed: int) -> pd.DataFrame:
    """The series with the missing rows or values that its name stands for."""
    random = np.random.default_rng(seed)
    if name.endswith("-holes"):
        return frame[random.random(len(frame)) >= REMOVED_SHARE].reset_index(drop=True)
    if name.endswith("-cells"):
        numbers = frame.drop(columns="date")
        return frame[["date"]].join(numbers.mask(random.random(numbers.shape) < REMOVED_SHARE))
    return frame


def score_forecaster(name: str, seed: int, options: dict[str, Any]) -> dict[str, float]:
    """Scores of the forecaster."""
    frame, target, _ = load(name)
    first, span = frame["date"][round(0.9 * len(frame))], np.ptp(frame[target][: round(0.8 * len(frame))])
    frame = remove(frame, name, seed)
    started = time.monotonic()
    model = NSACForecaster(HORIZON, LOOKBACK, target, "date", random_state=seed, **options)
    model.fit(frame[frame["date"] < first])
    fit_seconds = time.monotonic() - started
    forecasts = model.historical_forecasts(frame, since=first)
    known = ~forecasts.y.isnan()
    p, y = forecasts.prediction[known], forecasts.y[known]
    covered = (forecasts.lower <= forecasts.y) & (forecasts.y <= forecasts.upper)
    started = time.monotonic()
    report = model.update_report(frame)
    some = torch.arange(0, len(y), CRPS_STRIDE)
    return {
        "mse": (p.mean - y).square().mean().item() / span**2,
        "mae": (p.mean - y).abs().mean().item() / span,
        "crps": crps(p[some], y[some]) / span,
        "nll": nll(p, y) - np.log(span),
        "coverage_90": covered[known].double().mean().item(),
        "width_90": (forecasts.upper - forecasts.lower)[known].mean().item() / span,
        "adaptive_90": float(np.average(report["coverage_90"], weights=report["forecasts"])),
        "adaptive_90_least": report["coverage_90"].min(),
        "adaptive_90_most": report["coverage_90"].max(),
        "fit_seconds": fit_seconds,
        "track_seconds": time.monotonic() - started,
        "forecasts": len(y),
    }  # pyright: ignore[reportReturnType]


def score_baselines(name: str) -> dict[str, dict[str, float]]:
    """Scores of persistence and ridge, on complete windows."""
    frame, target, step = load(name)
    validation, test = round(0.8 * len(frame)), round(0.9 * len(frame))
    task = build(
        name, "sound", 0, frame, Setting((0, validation, test, test, len(frame)), *WINDOW, (target,), step), ""
    )
    train = frame[target][:validation]
    factor = train.std(ddof=0) / np.ptp(train)  # from standard deviations to the range of the training rows
    scores = {}
    for method in ("persistence", "ridge"):
        fitted = METHODS[method](task.problem)
        fit(fitted, task.train, task.validation)
        found = task.score_method(fitted)
        scores[method] = {key: found[key] * factor**power for key, power in POWERS.items()}
        scores[method]["nll"] = found["nll"] + np.log(factor)
    return scores


def main() -> None:
    """Compute the records that do not exist, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["ettm1", "jena", "ettm1-holes", "ettm1-cells"])
    parser.add_argument("--out", type=Path, default=Path("results/forecast"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", type=json.loads, default={}, help="arguments of the forecaster, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.data:
        path = arguments.out / f"{name}-{arguments.seed}.json"
        if not path.exists():
            commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
            record = {"data": name, "seed": arguments.seed, "options": arguments.options, "commit": commit}
            scores = {"nsac": score_forecaster(name, arguments.seed, arguments.options), **score_baselines(name)}
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(record | {"scores": scores}, indent=1) + "\n")
            temporary.rename(path)
        table = pd.DataFrame(json.loads(path.read_text())["scores"]).T
        print(f"\n{name}\n{table[[key for key in SCORES if key in table]].to_string(float_format='%.5f')}", flush=True)


if __name__ == "__main__":
    main()
