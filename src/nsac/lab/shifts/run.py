"""Runs of the shift suite: one method on one scene, with one record per shift kept in a file."""

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pandas as pd

from nsac._io import write_atomic
from nsac._torch import single_threaded
from nsac.lab.shifts.detectors import described, references
from nsac.lab.shifts.evaluation import evaluate, evaluate_detector
from nsac.lab.shifts.scenes import REPORTED, make_scene
from nsac.methods import METHODS, AbstractMethod, AbstractProblem, GaussianMLE, NSACMethod, fit
from nsac.training import TrainConfig

COMPARED: dict[str, Callable[[AbstractProblem, int], AbstractMethod]] = {
    "nsac": lambda problem, seed: NSACMethod(problem, seed),
    "nsac, paper": lambda problem, seed: NSACMethod(problem, seed, objective="paper"),
    "nsac, likelihood": lambda problem, seed: NSACMethod(problem, seed, objective="paper", reg_weight=0.0),
    **{
        name: lambda problem, seed, name=name: METHODS[name](problem, seed=seed)  # pyright: ignore[reportCallIssue]
        for name in ("gmle", "mcd", "de", "der", "sdenet")
    },
}
"""Name of a method to the function that builds it. `nsac, likelihood` is the same model without separation term.
Runs of `gmle` also evaluate reference detectors, on inputs and on its features; runs of `nsac`, on descriptions."""

_train = partial(TrainConfig, max_steps=400, accelerator="cpu")
CONFIGS = {
    # One row with long tails can have a loss of millions. Its gradient is clipped, so training need not stop.
    "table": _train(learning_rate=3e-3, validate_every=40, explode=1e9),
    "windows": _train(learning_rate=1e-3, validate_every=50),
    "series": _train(batch_size=32, learning_rate=6e-3, schedule="one-cycle", ema=0.995, validate_every=50),
}
"""Training configuration by kind of problem, the same for every method; training is short, for there are many runs."""


def run_shifts(scene_name: str, method_name: str, seed: int, kinds: Iterable[str] = REPORTED) -> list[dict]:
    """Train one method on one scene and evaluate its shifts; a pure function of its arguments."""
    scene = make_scene(scene_name, seed)
    method = COMPARED[method_name](scene.problem, seed)
    start = time.process_time()
    fit(method, scene.train, scene.validation, CONFIGS[scene.problem.kind], seed=seed)
    seconds = time.process_time() - start
    records = [{**record, "method": method_name} for record in evaluate(method, scene, kinds)]
    detectors = described(scene, seed) if method_name == "nsac" else {}
    if isinstance(method, GaussianMLE):
        detectors = references(scene, method.trunk, seed)
    for name, score in detectors.items():
        records += evaluate_detector(name, score, scene, kinds)
    return [{**record, "fit_seconds": seconds} for record in records]


def run_kept(folder: Path, scene: str, method: str, seed: int) -> list[dict]:
    """Records of `run_shifts` for the reported kinds; they are read from their file if it exists."""
    path = folder / f"{scene.replace('/', '-')}_{method.replace(', ', '-')}_{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    with single_threaded():
        records = run_shifts(scene, method, seed)
    write_atomic(path, json.dumps(records).encode())
    return records


def read_kept(folder: Path) -> pd.DataFrame:
    """All records of a folder, one per row."""
    return pd.DataFrame([record for path in sorted(folder.glob("*.json")) for record in json.loads(path.read_text())])
