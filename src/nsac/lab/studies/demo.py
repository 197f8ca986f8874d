"""The five-minute demonstration: irregular spirals, trained and scored."""

from collections.abc import Callable
from dataclasses import dataclass

from nsac.lab.studies.spirals import PARTS, SpiralRun, mean_trajectory, run_spirals
from nsac.training import Progress
from nsac.uncertainty import coverage, crps, mse, nll


@dataclass(frozen=True)
class Demo:
    """What came out."""

    run: SpiralRun
    rows: list[dict]
    """scores: one row per method and part"""


def run_demo(steps: int = 1000, seed: int = 0, report: Callable[[Progress], None] | None = None) -> Demo:
    """Train NSAC on irregular spirals and score it beside the mean of the training spirals."""
    run = run_spirals(steps, seed, report=report)
    naive = SpiralRun(run.spirals, mean_trajectory(run.spirals))
    return Demo(run, _score("nsac", run) + _score("mean trajectory", naive))


def _score(method: str, run: SpiralRun) -> list[dict]:
    rows = []
    for part, points in PARTS.items():
        p, y = run.part(points)
        scores = {score.__name__: score(p, y) for score in (mse, nll, crps, coverage)}
        spread = {kind: getattr(p, kind).mean().sqrt().item() for kind in ("aleatoric", "epistemic")}
        rows.append({"method": method, "part": part, **scores, **spread})
    return rows
