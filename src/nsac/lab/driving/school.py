"""From a task to a pilot: the benchmark's own run, whose fitted method is kept; and how it does on another road."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

from nsac.lab.datasets.udacity import Drive, load_drive
from nsac.lab.driving.pilot import Pilot, load_pilot
from nsac.lab.driving.records import DriveRecord, make_record
from nsac.lab.driving.road import Frames, read_frames, road_task
from nsac.lab.grid.config import run_config
from nsac.lab.grid.run import run_fitted
from nsac.lab.grid.store import RESULTS, Record, Store
from nsac.training import Progress
from nsac.uncertainty import Scores, ood_auroc


def train_pilot(
    task: str,
    method: str,
    seed: int,
    folder: str | os.PathLike,
    results: str | os.PathLike = RESULTS,
    report: Callable[[Progress], None] | None = None,
) -> tuple[Pilot, Record]:
    """Train a pilot and keep it, and the record of its scores on held-out frames with those of the benchmark.

    What is there with the same numbers is not made again.

    Args:
        task: `"carracing"` or `"udacity"`.
        method: a row of the task's file of numbers.
        seed: of the run.
        folder: for the pilot.
        results: folder of the benchmark's records.
        report: called after each step of training.
    """
    config, store = run_config(task, "sound", method, seed), Store(Path(results))
    if Path(folder).is_dir() and config.name in store:
        pilot = load_pilot(folder, task)
        if pilot.config == config:
            return pilot, store.read(config.name)
    outcome = run_fitted(config, report)
    pilot = Pilot.of(outcome.method, outcome.task, config, outcome.calibration)
    pilot.save(folder)
    store.write(outcome.record)
    return pilot, outcome.record


def other_road(pilot: Pilot, lake: Drive | None = None, mountain: Drive | None = None) -> DriveRecord:
    """How a pilot of the lake does in the mountains, and whether it knows that it does not know them."""
    start = time.process_time()
    home = road_task(pilot.config.seed, lake).test
    assert isinstance(home, Frames)
    away = mountain or load_drive("mountain")
    steering = torch.tensor(away.steering, dtype=torch.float32)
    there = Frames(read_frames(away), steering, torch.arange(len(steering)), home.scale)
    found = {}
    for name, part in (("lake", home), ("mountain", there)):
        scores, epistemic, aleatoric = Scores(), [], []
        for rows in torch.arange(len(part)).split(256):
            batch = part.batch(rows)
            p = pilot.predict(batch["x"])
            scores.add(p, batch["y"] * part.scale)
            epistemic.append(p.epistemic[:, 0])
            aleatoric.append(p.aleatoric[:, 0])
        found[name] = scores.table(), torch.cat(epistemic), torch.cat(aleatoric)
        zero = part.steering[part.rows].square().mean().item()
        found[name][0]["zero_mse"] = zero
    measures: dict[str, float | None] = {
        f"{name}_{metric}": table[metric]
        for name, (table, *_) in found.items()
        for metric in ("mse", "zero_mse", "nll", "crps", "coverage_90", "width_90")
    }
    (_, known, noise), (_, new, more) = found["lake"], found["mountain"]
    measures |= {
        "lake_epistemic": known.mean().item(),
        "mountain_epistemic": new.mean().item(),
        "epistemic_ratio": (new.mean() / known.mean().clamp(min=1e-12)).item() if known.any() else None,
        "auroc_epistemic": ood_auroc(known, new),
        "auroc_total": ood_auroc(known + noise, new + more),
    }
    numbers = {"lake": len(home), "mountain": len(there)}
    return make_record(pilot.config, "mountain", numbers, measures, {}, time.process_time() - start)
