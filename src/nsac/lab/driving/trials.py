"""Many laps: unseen tracks, the same tracks in other colours, and with a supervisor on the seat beside."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch

from nsac._checks import check_choice, check_int
from nsac.lab.driving.lap import Driver, Lap, Start, drive_laps
from nsac.lab.driving.supervisor import LEVEL, DoubtSupervisor, Reaction, calibrate_threshold, would_react
from nsac.lab.driving.world import Colours, World, random_colours
from nsac.uncertainty import ood_auroc

HELD_OUT, UNSEEN = 900, 1000
"""First seeds of the tracks on which choices are made, and of those that are looked at once."""
COLOURS = 50_000
"""First seed of the colours of the noise test."""

Report = Callable[[Lap, str], None]


@dataclass(frozen=True)
class TrialConfig:
    """Numbers of the closed-loop tests."""

    first_seed: int = UNSEEN
    """of the tracks"""
    tracks: int = 10
    """clean laps, and runs of the noise test: one per track"""
    trials: int = 10
    """colourings of each track"""
    calibration: tuple[int, ...] = tuple(range(HELD_OUT + 50, HELD_OUT + 60))
    """tracks whose clean laps set the supervisor's threshold"""
    level: float = LEVEL
    """share of the time the supervisor lets a pilot drive on those"""
    reactions: tuple[Reaction, ...] = ("hand over", "slow")
    """of the supervisor"""
    at_once: int = 10
    """laps driven together; which ones are decides which draws each gets"""

    def __post_init__(self):
        check_int("at_once", self.at_once)
        for reaction in self.reactions:
            check_choice("reaction", reaction, ("hand over", "slow"))


@dataclass(frozen=True)
class Trials:
    """What came out: one row of measures per lap, and numbers over all of them."""

    clean: list[dict[str, Any]]
    expert: list[dict[str, Any]]
    noise: list[dict[str, Any]] = field(default_factory=list)
    supervised: list[dict[str, Any]] = field(default_factory=list)
    threshold: float | None = None
    measures: dict[str, float | None] = field(default_factory=dict)


def schemes(config: TrialConfig) -> Iterator[tuple[int, int, Colours]]:
    """Run, trial and colours of the noise test; the same for every method."""
    for run in range(config.tracks):
        for trial in range(config.trials):
            yield run, trial, random_colours(COLOURS + 1000 * run + trial)


def run_trials(driver: Driver, config: TrialConfig, report: Report | None = None) -> Trials:
    """Clean laps, the noise test, and both again with a supervisor."""
    worlds, report = [World() for _ in range(config.at_once)], report or (lambda lap, kind: None)

    def laps(who: Driver | None, starts: Sequence[Start], kind: str) -> list[Lap]:
        return drive_laps(worlds, who, starts, lambda lap: report(lap, kind))

    seeds = [config.first_seed + i for i in range(config.tracks)]
    plain = [(run, None, Start(seed)) for run, seed in enumerate(seeds)]
    asked = plain + [(run, trial, Start(seeds[run], colours)) for run, trial, colours in schemes(config)]
    try:
        expert = laps(None, [start for *_, start in plain], "expert")
        alone = laps(driver, [start for *_, start in asked], "alone")
        threshold, beside = None, {}
        if config.reactions:
            held_out = laps(driver, [Start(seed) for seed in config.calibration], "calibration")
            threshold = calibrate_threshold(held_out, config.level)
            acted = [i for i, lap in enumerate(alone) if would_react(lap, threshold)]  # other laps stay as they are
            for reaction in config.reactions:
                again = [replace(asked[i][2], supervisor=DoubtSupervisor(threshold, reaction)) for i in acted]
                beside[reaction] = dict(zip(acted, laps(driver, again, reaction), strict=True))
    finally:
        for world in worlds:
            world.close()
    rows = [{"run": run, "trial": trial, **row(lap)} for (run, trial, _), lap in zip(asked, alone, strict=True)]
    supervised = [
        {**rows[i], "reaction": reaction, **(row(changed[i]) if i in changed else {})}
        for reaction, changed in beside.items()
        for i in range(len(rows))
    ]
    clean, noise = rows[: config.tracks], rows[config.tracks :]
    found = Trials(clean, [row(lap) for lap in expert], noise, supervised, threshold)
    return Trials(**{**asdict(found), "measures": summary(found)})


def row(lap: Lap) -> dict[str, Any]:
    """Measures of a lap, with its track and how long others drove."""
    others = {f"share_{mode.replace(' ', '_')}": lap.modes.count(mode) / len(lap) for mode in ("slow", "hand over")}
    return {"seed": lap.seed, **lap.measures(), **others}


def summary(trials: Trials) -> dict[str, float | None]:
    """Numbers over all laps; distances and speeds are of laps that were finished."""
    clean, expert, noise = trials.clean, trials.expert, trials.noise
    out: dict[str, float | None] = {
        "success": _mean(clean, "finished"),
        "distance": _mean(_done(clean), "distance"),
        "expert_distance": _mean(_done(expert), "distance"),
        "speed": _mean(_done(clean), "speed"),
        "expert_speed": _mean(_done(expert), "speed"),
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
    failed = [1 - lap["finished"] for lap in noise]
    for kind in ("doubt", "aleatoric", "epistemic"):
        doubts = [lap[kind] for lap in noise]
        out[f"noise_auroc_{kind}"] = _auroc(doubts, failed)
    for reaction in sorted({lap["reaction"] for lap in trials.supervised}):
        some, name = [lap for lap in trials.supervised if lap["reaction"] == reaction], reaction.replace(" ", "_")
        calm, odd = ([lap for lap in some if (lap["trial"] is None) == plain] for plain in (True, False))
        crashes = sum(1 - lap["finished"] for lap in odd)
        out |= {
            f"{name}_crashes": float(crashes),
            f"{name}_success": _mean(calm, "finished"),
            f"{name}_clean_speed": _mean(_done(calm), "speed"),
            f"{name}_clean_share": _mean(calm, f"share_{name}"),
            f"{name}_noise_share": _mean(odd, f"share_{name}"),
            f"{name}_needless_share": _mean(
                [lap for lap, plain in zip(odd, noise, strict=True) if plain["finished"]], f"share_{name}"
            ),
        }
    return out | {"crashes": float(sum(failed))}


def _auroc(doubts: list[float], failed: list[float]) -> float | None:
    known, unknown = ([d for d, f in zip(doubts, failed, strict=True) if f == kind] for kind in (0, 1))
    return ood_auroc(torch.tensor(known), torch.tensor(unknown)) if known and unknown else None


def _done(laps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [lap for lap in laps if lap["finished"]]


def _mean(laps: list[dict[str, Any]], name: str) -> float | None:
    return float(np.mean([lap[name] for lap in laps])) if laps else None
