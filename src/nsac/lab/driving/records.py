"""Records of what happened on the road: one JSON file per pilot and test, whole or not there."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nsac.lab.grid.config import NEURAL, RunConfig
from nsac.lab.grid.provenance import provenance
from nsac.lab.grid.sheet import Image, Section, Sheet, Spread
from nsac.lab.grid.store import AbstractRecord, AbstractStore, config_key, finite

RESULTS = Path("results/driving")
"""Where records are, unless another folder is named."""


SHOWN = {
    "carracing": {
        "success": "laps", "distance_ratio": "dist.", "speed": "speed", "noise_success": "other colours",
        "noise_auroc_doubt": "AUROC", "crashes": "crashes", "hand_over_crashes": "handed over",
        "slow_crashes": "slowed",
    },
    "udacity": {
        "lake_mse": "lake MSE", "lake_zero_mse": "of zero", "mountain_mse": "mountain MSE", "epistemic_ratio": "epist.",
        "auroc_epistemic": "AUROC", "auroc_total": "AUROC, total",
    },
}  # fmt: skip
"""Measures of the table by task, with short headings."""

NOTES = {
    "carracing": "Finished laps, distance from the centreline over the expert's, speed, finished laps in other "
    "colours, how well doubt tells those that fail, and crashes without and with a supervisor. The paper's NSAC "
    "finishes 80 % in other colours.",
    "udacity": "Squared error on held-out stretches of the lake road, of predicting zero there, and on the mountain "
    "road; epistemic variance there over the lake's, and how well deviations tell the roads apart.",
}

PICTURES = {
    "closed-loop": "Figure 7. One lap of each pilot: where it drove (A), how far from the centreline (B), what it did "
    "(C), what its steering hung on (D), and finished laps in other colours, mean and deviation over seeds (E).",
    "saliency": "Grad-CAM of the steering of each pilot at some moments of a lap.",
}
"""What each picture shows, by the name of its file."""


@dataclass(frozen=True, kw_only=True)
class DriveRecord(AbstractRecord):
    """What came out of one test of a pilot. Its config has the numbers of the test and of the run that made it."""

    task: str
    """`"carracing"` or `"udacity"`"""
    test: str
    """`"trials"`: closed loop; `"mountain"`: another road"""
    method: str
    seed: int
    """of the run that made the pilot"""
    measures: dict[str, float | None]
    details: dict[str, Any]
    """lap by lap"""
    seconds: float
    """of CPU"""

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{self.task}_{self.test}_{self.method}_{self.seed}_{self.key}"


def make_record(
    run: RunConfig, test: str, numbers: dict[str, Any], measures: dict[str, float | None], details: dict[str, Any],
    seconds: float,
) -> DriveRecord:  # fmt: skip
    """A record of now and here."""
    config = plain({"test": numbers, "run": run.to_dict()})
    return DriveRecord(
        task=run.task, test=test, method=run.method, seed=run.seed, key=config_key(config), config=config,
        measures=plain(measures), details=plain(details), seconds=seconds, **provenance(),
    )  # fmt: skip


def record_name(run: RunConfig, test: str, numbers: dict[str, Any]) -> str:
    """Of the record of a test."""
    key = config_key(plain({"test": numbers, "run": run.to_dict()}))
    return f"{run.task}_{test}_{run.method}_{run.seed}_{key}"


class DriveStore(AbstractStore[DriveRecord]):
    """Records of the road."""

    kind, format, command = DriveRecord, "nsac-drive", "nsac drive test"

    def __init__(self, folder: str | Path = RESULTS):
        super().__init__(folder)

    def of(self, test: str) -> list[DriveRecord]:
        """Records of one test."""
        return [record for record in self.records() if record.test == test]


def table_rows(records: Iterable[DriveRecord]) -> list[dict[str, Any]]:
    """One row per task, test, method and measure: mean and deviation over seeds, and their number."""
    collected: dict[tuple[str, str, str], list[DriveRecord]] = {}
    for record in records:
        collected.setdefault((record.task, record.test, record.method), []).append(record)
    rows = []
    for (task, test, method), some in sorted(collected.items(), key=lambda item: _place(*item[0])):
        for metric in dict.fromkeys(name for record in some for name in record.measures):
            values = [v for v in (record.measures.get(metric) for record in some) if v is not None]
            about = {"task": task, "test": test, "method": method, "metric": metric, "n": len(some)}
            mean = float(np.mean(values)) if values else None
            rows.append({**about, "mean": mean, "std": float(np.std(values, ddof=1)) if len(values) > 1 else None})
    return rows


def sheets(records: Iterable[DriveRecord]) -> list[Sheet]:
    """A table per task: a row per method, `n` seeds each."""
    rows, made = table_rows(records), []
    for task in dict.fromkeys(row["task"] for row in rows):
        some = {(row["method"], row["metric"]): row for row in rows if row["task"] == task}
        names, notes = SHOWN[task.partition("-")[0]], NOTES[task.partition("-")[0]]
        lines = []
        for method in dict.fromkeys(method for method, _ in some):
            count = max(row["n"] for (m, _), row in some.items() if m == method)
            cells = [some.get((method, name), {"mean": None}) for name in names]
            spreads = (None if cell["mean"] is None else Spread(cell["mean"], cell["std"]) for cell in cells)
            lines.append([method, count, *spreads])
        made.append(Sheet(task, ["method", "n", *names.values()], lines, notes))
    return made


def section(records: Iterable[DriveRecord], folder: Path) -> Section:
    """The road as a section of the report, with the pictures that `nsac drive figure` and `saliency` left in a folder.

    Args:
        records: at least one.
        folder: where pictures may be.
    """
    drawn = [(name, caption, folder / f"{name}.png") for name, caption in PICTURES.items()]
    images = [Image(name, caption, path.read_bytes()) for name, caption, path in drawn if path.is_file()]
    text = (
        "Pilots cloned from an expert that knows the track, in the simulator, lap by lap; and steering on roads that "
        "were, and were not, seen. A supervisor slows down or hands over when doubt passes what held-out laps had."
    )
    return Section("driving", "Driving", text, sheets(records), images)


def _place(task: str, test: str, method: str) -> tuple:
    return task, test, NEURAL.index(method) if method in NEURAL else len(NEURAL), method


def plain(value: Any) -> Any:
    """As JSON gives it back: lists for tuples, None for what is not finite."""
    return json.loads(json.dumps(finite(value)))
