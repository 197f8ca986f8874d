"""How well `NSACForecaster` forecasts with its defaults, beside the last value and ridge with a constant deviation.

    python benchmarks/forecast.py --data ettm1 jena ettm1-holes ettm1-cells --out results/forecast

The first nine tenths of a record are fitted, and every forecast whose steps all lie in the last tenth is scored, with
the target scaled from 0 to 1 by the first eight tenths. `holes` leaves out 30 % of the rows, `cells` 30 % of the
values, of the whole record. `coverage_90` is that of the intervals as `fit` leaves them, `adaptive_90` that of
intervals which adapt on the way. One JSON record per data set; one that is there is not made again.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from nsac import NSACForecaster
from nsac.lab.datasets import load_ettm1, load_jena
from nsac.lab.datasets.weather import JENA_COLUMNS
from nsac.lab.tasks.forecasts import Setting, build
from nsac.methods import METHODS, fit
from nsac.uncertainty.scores import crps, nll

LOOKBACK, HORIZON, REMOVED = 48, 24, 0.3
SHOWN = ("mse", "mae", "crps", "nll", "coverage_90", "width_90", "adaptive_90", "fit_seconds")


def load(name: str) -> tuple[pd.DataFrame, str, pd.Timedelta]:
    """Record, target and step."""
    if name.startswith("ettm1"):
        frame, target, step = load_ettm1(), "OT", pd.Timedelta("15min")
    else:
        frame, target, step = load_jena()[["date", *JENA_COLUMNS]], "T (degC)", pd.Timedelta("10min")
        frame = frame.drop_duplicates("date").reset_index(drop=True)
    return frame, target, step


def remove(frame: pd.DataFrame, name: str, seed: int) -> pd.DataFrame:
    """The record with its holes."""
    random = np.random.default_rng(seed)
    if name.endswith("-holes"):
        return frame[random.random(len(frame)) >= REMOVED].reset_index(drop=True)
    if name.endswith("-cells"):
        numbers = frame.drop(columns="date")
        return frame[["date"]].join(numbers.mask(random.random(numbers.shape) < REMOVED))
    return frame


def forecaster(name: str, seed: int, options: dict) -> dict[str, float]:
    """Scores of the forecaster."""
    frame, target, _ = load(name)
    first, span = frame["date"][round(0.9 * len(frame))], np.ptp(frame[target][: round(0.8 * len(frame))])
    frame = remove(frame, name, seed)
    started = time.monotonic()
    model = NSACForecaster(HORIZON, LOOKBACK, target, "date", random_state=seed, **options)
    model.fit(frame[frame["date"] < first])
    seconds = time.monotonic() - started
    made = model.forecasts(frame, since=first)
    known = ~made.y.isnan()
    p, y = made.prediction[known], made.y[known]
    inside = (made.lower <= made.y) & (made.y <= made.upper)
    started = time.monotonic()
    tracked = model.track(frame)
    some = torch.arange(0, len(y), 5)  # the score of a mixture takes its time
    return {
        "mse": (p.mean - y).square().mean().item() / span**2,
        "mae": (p.mean - y).abs().mean().item() / span,
        "crps": crps(p[some], y[some]) / span,
        "nll": nll(p, y) - np.log(span),
        "coverage_90": inside[known].double().mean().item(),
        "width_90": (made.upper - made.lower)[known].mean().item() / span,
        "adaptive_90": float(np.average(tracked["coverage_90"], weights=tracked["judged"])),
        "adaptive_90_least": tracked["coverage_90"].min(),
        "adaptive_90_most": tracked["coverage_90"].max(),
        "fit_seconds": seconds,
        "track_seconds": time.monotonic() - started,
        "forecasts": len(y),
    }  # pyright: ignore[reportReturnType]


def naive(name: str) -> dict[str, dict[str, float]]:
    """Scores of the last value and of ridge, on whole windows."""
    frame, target, step = load(name)
    n = len(frame)
    cuts = [round(share * n) for share in (0.8, 0.9)]
    parts = {"train": (0, cuts[0]), "validation": (cuts[0], cuts[1]), "calibration": (cuts[0], cuts[1])}
    day = round(pd.Timedelta("1D") / step)
    setting = Setting(parts | {"test": (cuts[1], n)}, LOOKBACK, HORIZON, (target,), step, day, True, True)
    task = build(name, "sound", 0, frame, setting, "")
    scores = {}
    for method in ("persistence", "ridge"):
        fitted = METHODS[method](task.problem)
        fit(fitted, task.train, task.validation)
        scores[method] = {key: v for key, v in task.score_method(fitted).items() if key in SHOWN}
    return scores


def main() -> None:
    """Make what is not there, and print all."""
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
            record["scores"] = {"nsac": forecaster(name, arguments.seed, arguments.options), **naive(name)}
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(record, indent=1) + "\n")
            temporary.rename(path)
        table = pd.DataFrame(json.loads(path.read_text())["scores"]).T
        print(f"\n{name}\n{table[[key for key in SHOWN if key in table]].to_string(float_format='%.5f')}", flush=True)


if __name__ == "__main__":
    main()
