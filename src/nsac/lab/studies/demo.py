"""The demonstration `nsac demo`: training and scores on irregular spirals."""

from collections.abc import Callable
from dataclasses import dataclass

from nsac.lab.studies.spirals import SpiralRun, mean_trajectory, run_spirals
from nsac.lab.tasks.spirals import GROUPS
from nsac.training import Progress
from nsac.uncertainty import coverage, crps, mse, nll


@dataclass(frozen=True)
class Demo:
    """Result of the demonstration."""

    run: SpiralRun
    rows: list[dict]
    """scores, one row per method and half of the spirals"""


def run_demo(steps: int = 1000, seed: int = 0, report: Callable[[Progress], None] | None = None) -> Demo:
    """Train NSAC on irregular spirals; score it and the baseline, the mean of the training spirals."""
    run = run_spirals(steps, seed, report=report)
    baseline = SpiralRun(run.spirals, mean_trajectory(run.spirals))
    return Demo(run, _score("nsac", run) + _score("mean trajectory", baseline))


def _score(method: str, run: SpiralRun) -> list[dict]:
    rows = []
    for half, points in GROUPS.items():
        p, y = run.at(points)
        scores = {score.__name__: score(p, y) for score in (mse, nll, crps, coverage)}
        stds = {kind: getattr(p, kind).mean().sqrt().item() for kind in ("aleatoric", "epistemic")}
        rows.append({"method": method, "half": half, **scores, **stds})
    return rows
