"""Closed-loop tests: laps on unseen tracks, on the same tracks in other colours, and with a supervisor."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from nsac._checks import check_choice, check_int
from nsac.lab.driving.lap import Lap, Policy, Start, drive_laps
from nsac.lab.driving.supervisor import (
    THRESHOLD_LEVEL,
    Reaction,
    UncertaintySupervisor,
    calibrate_threshold,
    would_react,
)
from nsac.lab.driving.world import Colours, World, random_colours
from nsac.uncertainty import ood_auroc

HELD_OUT_SEED, UNSEEN_SEED = 900, 1000
"""First seeds of the tracks for choices, and of the tracks that are used for the final test only."""
COLOUR_SEED = 50_000
"""First seed of the colours of the noise test."""

Report = Callable[[Lap, str], None]


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
            check_choice("reaction", reaction, ("hand over", "slow"))


@dataclass(frozen=True)
class Trials:
    """Results: one row of measures per lap, and the measures over all of them."""

    clean: list[dict[str, Any]]
    expert: list[dict[str, Any]]
    noise: list[dict[str, Any]] = field(default_factory=list)
    supervised: list[dict[str, Any]] = field(default_factory=list)
    threshold: float | None = None
    measures: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Trial:
    """A lap to be driven: its run, its number in the noise test (None for a clean lap), and its start."""

    run: int
    trial: int | None
    start: Start


def schemes(config: TrialConfig) -> Iterator[tuple[int, int, Colours]]:
    """Run, trial and colours of the noise test; the same for every method."""
    for run in range(config.tracks):
        for trial in range(config.trials):
            yield run, trial, random_colours(COLOUR_SEED + 1000 * run + trial)


def run_trials(policy: Policy, config: TrialConfig, report: Report | None = None) -> Trials:
    """Clean laps, the noise test, and both again with a supervisor."""
    worlds = [World() for _ in range(config.at_once)]

    def drive(driver: Policy | None, starts: Sequence[Start], kind: str) -> list[Lap]:
        def ended(lap: Lap) -> None:
            if report is not None:
                report(lap, kind)

        return drive_laps(worlds, driver, starts, ended)

    seeds = [config.first_seed + i for i in range(config.tracks)]
    clean = [_Trial(run, None, Start(seed)) for run, seed in enumerate(seeds)]
    noise = [_Trial(run, trial, Start(seeds[run], colours)) for run, trial, colours in schemes(config)]
    trials = clean + noise
    try:
        expert = drive(None, [trial.start for trial in clean], "expert")
        alone = drive(policy, [trial.start for trial in trials], "alone")
        threshold, replaced = None, {}
        if config.reactions:
            held_out = drive(policy, [Start(seed) for seed in config.calibration], "calibration")
            threshold = calibrate_threshold(held_out, config.level)
            acted = [i for i, lap in enumerate(alone) if would_react(lap, threshold)]  # other laps stay as they are
            for reaction in config.reactions:
                supervisors = [UncertaintySupervisor(threshold, reaction) for _ in acted]
                again = [replace(trials[i].start, supervisor=s) for i, s in zip(acted, supervisors, strict=True)]
                replaced[reaction] = dict(zip(acted, drive(policy, again, reaction), strict=True))
    finally:
        for world in worlds:
            world.close()
    rows = [{"run": t.run, "trial": t.trial, **row(lap)} for t, lap in zip(trials, alone, strict=True)]
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
    reactions = {f"share_{mode.replace(' ', '_')}": lap.modes.count(mode) / len(lap) for mode in ("slow", "hand over")}
    return {"seed": lap.seed, **lap.measures(), **reactions}


def summary(trials: Trials) -> dict[str, float | None]:
    """Measures over all laps; distances and speeds are of finished laps."""
    clean, expert, noise = trials.clean, trials.expert, trials.noise
    out: dict[str, float | None] = {
        "success": _mean(clean, "finished"),
        "distance": _mean(_finished(clean), "distance"),
        "expert_distance": _mean(_finished(expert), "distance"),
        "speed": _mean(_finished(clean), "speed"),
        "expert_speed": _mean(_finished(expert), "speed"),
        "steering_error": _mean(clean, "steering_error"),
        "steering_change": _mean(clean, "steering_change"),
        "doubt": _mean(clean, "doubt"),
        "threshold": trials.threshold,
    }
    if out["distance"] is not None and out["expert_distance"]:
        out["distance_ratio"] = out["distance"] / out["expert_distance"]
    if not noise:
        return out
    runs = sorted({lap["run"] for lap in noise})
    rates = [np.mean([lap["finished"] for lap in noise if lap["run"] == run]) for run in runs]
    out |= {
        "noise_success": float(np.mean(rates)),
        "noise_success_std": float(np.std(rates, ddof=1)) if rates[1:] else None,
    }
    for kind in ("doubt", "aleatoric", "epistemic"):
        out[f"noise_auroc_{kind}"] = _failure_auroc(noise, kind)
    for reaction in sorted({lap["reaction"] for lap in trials.supervised}):
        out |= _reaction_summary([lap for lap in trials.supervised if lap["reaction"] == reaction], noise, reaction)
    return out | {"crashes": _crashes(noise)}


def _reaction_summary(
    supervised: list[dict[str, Any]], noise: list[dict[str, Any]], reaction: str
) -> dict[str, float | None]:
    name = reaction.replace(" ", "_")
    clean = [lap for lap in supervised if lap["trial"] is None]
    noisy = [lap for lap in supervised if lap["trial"] is not None]
    needless = [lap for lap, alone in zip(noisy, noise, strict=True) if alone["finished"]]
    return {
        f"{name}_crashes": _crashes(noisy),
        f"{name}_success": _mean(clean, "finished"),
        f"{name}_clean_speed": _mean(_finished(clean), "speed"),
        f"{name}_clean_share": _mean(clean, f"share_{name}"),
        f"{name}_noise_share": _mean(noisy, f"share_{name}"),
        f"{name}_needless_share": _mean(needless, f"share_{name}"),
    }


def _failure_auroc(laps: list[dict[str, Any]], kind: str) -> float | None:
    """How well an uncertainty predicts that a lap fails."""
    finished = [lap[kind] for lap in laps if lap["finished"]]
    failed = [lap[kind] for lap in laps if not lap["finished"]]
    return ood_auroc(torch.tensor(finished), torch.tensor(failed)) if finished and failed else None


def _crashes(laps: list[dict[str, Any]]) -> float:
    return float(sum(1 - lap["finished"] for lap in laps))


def _finished(laps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [lap for lap in laps if lap["finished"]]


def _mean(laps: list[dict[str, Any]], name: str) -> float | None:
    return float(np.mean([lap[name] for lap in laps])) if laps else None
