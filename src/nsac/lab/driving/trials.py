"""Tests of driving policies.

CarRacing: laps on unseen tracks, on the same tracks in other colours, and with a supervisor. Udacity: a policy trained
on the lake track, evaluated on the lake and on the mountain track.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nsac._checks import check_choice, check_int
from nsac.lab.datasets.udacity import Drive, load_drive
from nsac.lab.driving.lap import Lap, Policy, Start, drive_laps
from nsac.lab.driving.policy import DrivingPolicy
from nsac.lab.driving.records import DriveRecord, make_record
from nsac.lab.driving.supervisor import (
    REACTIONS,
    THRESHOLD_LEVEL,
    Reaction,
    UncertaintySupervisor,
    calibrate_threshold,
    would_react,
)
from nsac.lab.driving.world import Colours, World, random_colours
from nsac.lab.grid.sheet import spread
from nsac.lab.tasks.udacity import Frames, read_frames, road_task
from nsac.uncertainty import Scores, ood_auroc

HELD_OUT_SEED, UNSEEN_SEED = 900, 1000
"""First seeds of the tracks for choices, and of the tracks that are used for the final test only."""
COLOUR_SEED = 50_000
"""First seed of the colours of the noise test."""

METRICS = ("mse", "zero_mse", "nll", "crps", "coverage_90", "width_90")
"""Scores that are recorded of each track of Udacity; `zero_mse` is that of predicting zero."""
BATCH_ROWS = 256

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class TrialConfig:
    """Configuration of the closed-loop tests. Field names are part of the keys of the records."""

    first_seed: int = UNSEEN_SEED
    """of the tracks"""
    tracks: int = 10
    """clean laps, and runs of the noise test: one per track"""
    trials: int = 10
    """colourings of each track"""
    calibration: tuple[int, ...] = tuple(range(HELD_OUT_SEED + 50, HELD_OUT_SEED + 60))
    """tracks whose clean laps set the supervisor's threshold"""
    level: float = THRESHOLD_LEVEL
    """quantile level of the threshold: share of the time without a reaction on those"""
    reactions: tuple[Reaction, ...] = ("hand over", "slow")
    """of the supervisor"""
    at_once: int = 10
    """laps driven together; the batches determine which random draws each lap gets"""

    def __post_init__(self):
        check_int("at_once", self.at_once)
        for reaction in self.reactions:
            check_choice("reaction", reaction, REACTIONS)


@dataclass(frozen=True)
class Trials:
    """Results: one row of measures per lap, and the measures over all of them."""

    clean: Rows
    expert: Rows
    noise: Rows = field(default_factory=list)
    supervised: Rows = field(default_factory=list)
    threshold: float | None = None
    measures: dict[str, float | None] = field(default_factory=dict)


def schemes(config: TrialConfig) -> Iterator[tuple[int, int, Colours]]:
    """Run, trial and colours of the noise test; the same for every method."""
    for run in range(config.tracks):
        for trial in range(config.trials):
            yield run, trial, random_colours(COLOUR_SEED + 1000 * run + trial)


def run_trials(
    policy: Policy, config: TrialConfig, report: Callable[[Lap, str], None] = lambda lap, kind: None
) -> Trials:
    """Clean laps, the noise test, and both again with a supervisor."""
    worlds = [World() for _ in range(config.at_once)]

    def drive(driver: Policy | None, starts: Sequence[Start], kind: str) -> list[Lap]:
        return drive_laps(worlds, driver, starts, lambda lap: report(lap, kind))

    clean = [Start(config.first_seed + run) for run in range(config.tracks)]
    labels: Rows = [{"run": run, "trial": None} for run in range(config.tracks)]
    starts = clean.copy()
    for run, trial, colours in schemes(config):
        labels.append({"run": run, "trial": trial})
        starts.append(replace(clean[run], colours=colours))
    try:
        expert = drive(None, clean, "expert")
        alone = drive(policy, starts, "alone")
        threshold, replaced = None, {}
        if config.reactions:
            held_out = drive(policy, [Start(seed) for seed in config.calibration], "calibration")
            threshold = calibrate_threshold(held_out, config.level)
            acted = [i for i, lap in enumerate(alone) if would_react(lap, threshold)]  # other laps stay as they are
            for reaction in config.reactions:
                again = [replace(starts[i], supervisor=UncertaintySupervisor(threshold, reaction)) for i in acted]
                replaced[reaction] = dict(zip(acted, drive(policy, again, reaction), strict=True))
    finally:
        for world in worlds:
            world.close()
    rows = [{**label, **row(lap)} for label, lap in zip(labels, alone, strict=True)]
    supervised = [
        {**rows[i], "reaction": reaction, **(row(laps[i]) if i in laps else {})}
        for reaction, laps in replaced.items()
        for i in range(len(rows))
    ]
    experts = [row(lap) for lap in expert]
    found = Trials(rows[: config.tracks], experts, rows[config.tracks :], supervised, threshold)
    return replace(found, measures=summary(found))


def row(lap: Lap) -> dict[str, Any]:
    """Measures of a lap, with its track and the share of the time of each reaction."""
    reactions = {f"share_{mode.replace(' ', '_')}": lap.modes.count(mode) / len(lap) for mode in REACTIONS}
    return {"seed": lap.seed, **lap.measures(), **reactions}


def summary(trials: Trials) -> dict[str, float | None]:
    """Measures over all laps; distances and speeds are of finished laps."""
    clean, noise = trials.clean, trials.noise
    finished, expert = _finished(clean), _finished(trials.expert)
    out: dict[str, float | None] = {"success": _mean(clean, "finished")}
    for name in ("distance", "speed"):
        out |= {name: _mean(finished, name), f"expert_{name}": _mean(expert, name)}
    out |= {name: _mean(clean, name) for name in ("steering_error", "steering_change", "doubt")}
    out["threshold"] = trials.threshold
    if out["distance"] is not None and out["expert_distance"]:
        out["distance_ratio"] = out["distance"] / out["expert_distance"]
    if not noise:
        return out
    runs = sorted({lap["run"] for lap in noise})
    rates = spread(_mean([lap for lap in noise if lap["run"] == run], "finished") for run in runs)
    out |= {"noise_success": rates.mean, "noise_success_std": rates.std}
    for kind in ("doubt", "aleatoric", "epistemic"):  # how well an uncertainty predicts that a lap fails
        good = torch.tensor([lap[kind] for lap in noise if lap["finished"]])
        bad = torch.tensor([lap[kind] for lap in noise if not lap["finished"]])
        out[f"noise_auroc_{kind}"] = ood_auroc(good, bad) if len(good) and len(bad) else None
    for reaction in sorted({lap["reaction"] for lap in trials.supervised}):
        name, share = reaction.replace(" ", "_"), f"share_{reaction.replace(' ', '_')}"
        supervised = [lap for lap in trials.supervised if lap["reaction"] == reaction]
        clean = [lap for lap in supervised if lap["trial"] is None]
        noisy = [lap for lap in supervised if lap["trial"] is not None]
        needless = [lap for lap, alone in zip(noisy, noise, strict=True) if alone["finished"]]
        out |= {
            f"{name}_crashes": float(len(noisy) - len(_finished(noisy))),
            f"{name}_success": _mean(clean, "finished"),
            f"{name}_clean_speed": _mean(_finished(clean), "speed"),
            f"{name}_clean_share": _mean(clean, share),
            f"{name}_noise_share": _mean(noisy, share),
            f"{name}_needless_share": _mean(needless, share),
        }
    return out | {"crashes": float(len(noise) - len(_finished(noise)))}


def compare_tracks(policy: DrivingPolicy, lake: Drive | None = None, mountain: Drive | None = None) -> DriveRecord:
    """Errors of a policy of the lake on both tracks, and how well its uncertainty separates them."""
    start = time.process_time()
    known = road_task(policy.config.seed, lake).test
    assert isinstance(known, Frames)
    drive = mountain or load_drive("mountain")
    steering = torch.tensor(drive.steering, dtype=torch.float32)
    shifted = Frames(read_frames(drive), steering, torch.arange(len(steering)), known.scale)
    inside_scores, inside_aleatoric, inside = evaluate(policy, known)
    outside_scores, outside_aleatoric, outside = evaluate(policy, shifted)
    measures: dict[str, float | None] = {f"lake_{name}": inside_scores[name] for name in METRICS}
    measures |= {f"mountain_{name}": outside_scores[name] for name in METRICS}
    ratio = outside.mean() / inside.mean().clamp(min=1e-12)
    measures |= {
        "lake_epistemic": inside.mean().item(),
        "mountain_epistemic": outside.mean().item(),
        "epistemic_ratio": ratio.item() if inside.any() else None,
        "auroc_epistemic": ood_auroc(inside, outside),
        "auroc_total": ood_auroc(inside + inside_aleatoric, outside + outside_aleatoric),
    }
    rows = {"lake": len(known), "mountain": len(shifted)}
    return make_record(policy.config, "mountain", rows, measures, {}, time.process_time() - start)


def evaluate(policy: DrivingPolicy, frames: Frames) -> tuple[dict[str, float], Tensor, Tensor]:
    """Scores of a policy on the frames of a track, and aleatoric and epistemic variances of its steering, (rows,)."""
    scores, aleatoric, epistemic = Scores(), [], []
    for rows in torch.arange(len(frames)).split(BATCH_ROWS):
        batch = frames.batch(rows)
        p = policy.predict(batch["x"])
        scores.add(p, batch["y"] * frames.scale)
        aleatoric.append(p.aleatoric[:, 0])
        epistemic.append(p.epistemic[:, 0])
    zero = frames.steering[frames.rows].square().mean().item()
    return {**scores.table(), "zero_mse": zero}, torch.cat(aleatoric), torch.cat(epistemic)


def _finished(laps: Rows) -> Rows:
    return [lap for lap in laps if lap["finished"]]


def _mean(laps: Rows, name: str) -> float | None:
    return float(np.mean([lap[name] for lap in laps])) if laps else None
