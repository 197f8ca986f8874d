"""Records of driving tests: one JSON file per policy and test, complete or absent; their tables and report section."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsac.lab.grid.config import NEURAL, RunConfig
from nsac.lab.grid.run import provenance
from nsac.lab.grid.sheet import Image, Section, Sheet, Spread, spread
from nsac.lab.grid.store import AbstractRecord, AbstractStore, config_key, finite

SHOWN = {
    "carracing": {
        "success": "finished", "distance_ratio": "dist.", "speed": "speed", "noise_success": "other colours",
        "noise_auroc_doubt": "AUROC", "crashes": "crashes", "hand_over_crashes": "with hand-over",
        "slow_crashes": "with slowing",
    },
    "udacity": {
        "lake_mse": "lake MSE", "lake_zero_mse": "MSE of zero", "mountain_mse": "mountain MSE",
        "epistemic_ratio": "epist. ratio", "auroc_epistemic": "AUROC", "auroc_total": "AUROC, total",
    },
}  # fmt: skip
"""Measures of the table by task, with short column heads."""

NOTES = {
    "carracing": "Share of finished laps, distance from the centreline relative to the expert's, speed, share of "
    "finished laps in other colours, AUROC of the total uncertainty for laps that fail there, and crashes without and "
    "with a supervisor. The paper's NSAC finishes 80 % in other colours.",
    "udacity": "Mean squared error on held-out stretches of the lake track, of predicting zero there, and on the "
    "mountain track; epistemic variance on the mountain track relative to the lake, and AUROC of the epistemic and of "
    "the total variance for separating the two.",
}

PICTURES = {
    "closed-loop": "Figure 7. One lap of each policy: its path (A), distance from the centreline (B), actions (C), "
    "Grad-CAM of the steering (D), and share of finished laps in other colours, mean and standard deviation over "
    "seeds (E).",
    "saliency": "Grad-CAM of the steering of each policy at some moments of a lap.",
}
"""Captions of the pictures, by the name of the file."""


@dataclass(frozen=True, kw_only=True)
class DriveRecord(AbstractRecord):
    """The result of one test of a policy. Its config is that of the test and of the run that trained the policy."""

    task: str  # `"carracing"` or `"udacity"`
    test: str  # `"trials"`: closed loop; `"mountain"`: another track
    method: str
    seed: int  # of the run that trained the policy
    measures: dict[str, float | None]
    details: dict[str, Any]  # per lap
    seconds: float  # of CPU

    @property
    def name(self) -> str:
        """Of its file, without the suffix."""
        return f"{self.task}_{self.test}_{self.method}_{self.seed}_{self.key}"


def make_record(
    run: RunConfig, test: str, settings: dict[str, Any], measures: dict[str, float | None], details: dict[str, Any],
    seconds: float,
) -> DriveRecord:  # fmt: skip
    """A record with the present time, code and machine."""
    config = _config(run, settings)
    return DriveRecord(
        task=run.task, test=test, method=run.method, seed=run.seed, key=config_key(config), config=config,
        measures=_to_plain(measures), details=_to_plain(details), seconds=seconds, **provenance(),
    )  # fmt: skip


def record_name(run: RunConfig, test: str, settings: dict[str, Any]) -> str:
    """Name of the record of a test."""
    return f"{run.task}_{test}_{run.method}_{run.seed}_{config_key(_config(run, settings))}"


class DriveStore(AbstractStore[DriveRecord]):
    """A folder of driving records."""

    kind, format, command = DriveRecord, "nsac-drive", "nsac drive test"

    def of(self, test: str) -> list[DriveRecord]:
        """Records of one test."""
        return [record for record in self.records() if record.test == test]


def table_rows(records: Iterable[DriveRecord]) -> list[dict[str, Any]]:
    """One row per task, test, method and measure: mean and standard deviation over seeds, and their number."""
    collected: dict[tuple[str, str, int, str], list[DriveRecord]] = {}
    for record in records:
        rank = NEURAL.index(record.method) if record.method in NEURAL else len(NEURAL)
        collected.setdefault((record.task, record.test, rank, record.method), []).append(record)
    rows = []
    for (task, test, _, method), some in sorted(collected.items()):
        for metric in dict.fromkeys(name for record in some for name in record.measures):
            values = [v for v in (record.measures.get(metric) for record in some) if v is not None]
            about = {"task": task, "test": test, "method": method, "metric": metric, "n": len(some)}
            rows.append(about | spread(values)._asdict())
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
            spreads = [None if cell["mean"] is None else Spread(cell["mean"], cell["std"]) for cell in cells]
            lines.append([method, count, *spreads])
        made.append(Sheet(task, ["method", "n", *names.values()], lines, notes))
    return made


def section(records: Iterable[DriveRecord], folder: Path) -> Section:
    """The driving section of the report, with the pictures in `folder` of `nsac drive figure` and `saliency`."""
    drawn = [(name, caption, folder / f"{name}.png") for name, caption in PICTURES.items()]
    images = [Image(name, caption, path.read_bytes()) for name, caption, path in drawn if path.is_file()]
    text = (
        "Policies cloned from an expert with access to the track, tested in closed loop in the simulator; and steering "
        "on a track of the training data and on another one. A supervisor slows down or hands over when the "
        "uncertainty exceeds that of held-out laps."
    )
    return Section("driving", "Driving", text, sheets(records), images)


def _config(run: RunConfig, settings: dict[str, Any]) -> dict[str, Any]:
    return _to_plain({"test": settings, "run": run.to_dict()})


def _to_plain(value: Any) -> Any:
    return json.loads(json.dumps(finite(value)))  # lists for tuples, None for numbers that are not finite
