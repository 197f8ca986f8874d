"""Every method on every scene of the shift suite: one record per shift, kept in files, and the table of all of them."""
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (the type checker takes a group of a frame for a number)

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import torch

from nsac._io import write_atomic
from nsac.lab.grid.sheet import Section, Sheet
from nsac.lab.shifts.suite import (
    CONFIRMING,
    REPORTED,
    Scene,
    described,
    evaluate,
    evaluate_detector,
    make_scene,
    references,
)
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
"""Name to what builds it. `nsac, likelihood` is the same model without any separation. Beside `gmle` stand distances
from its features, and others that need no method."""

CONFIGS = {
    # one row with long tails can make a loss of millions; its gradient is clipped, so training may go on
    "table": TrainConfig(max_steps=400, learning_rate=3e-3, validate_every=40, explode=1e9, accelerator="cpu"),
    "windows": TrainConfig(max_steps=400, learning_rate=1e-3, validate_every=50, accelerator="cpu"),
    "series": TrainConfig(
        max_steps=400,
        batch_size=32,
        learning_rate=6e-3,
        schedule="one-cycle",
        ema=0.995,
        validate_every=50,
        accelerator="cpu",
    ),
}
"""Numbers of a training run by kind of problem, the same for every method; short, for the grid is large."""


def run_shifts(scene_name: str, method_name: str, seed: int, kinds: Iterable[str] = REPORTED) -> list[dict]:
    """Train one method on one scene and look at its shifts; a pure function of its arguments."""
    scene = make_scene(scene_name, seed)
    method = COMPARED[method_name](scene.problem, seed)
    start = time.process_time()
    fit(method, scene.train, scene.validation, CONFIGS[scene.problem.kind], seed=seed)
    seconds = time.process_time() - start
    records = [{**record, "method": method_name} for record in evaluate(method, scene, kinds)]
    if isinstance(method, GaussianMLE):
        records += _distances(references(scene, method.trunk, scene.seed), scene, kinds)
    if method_name == "nsac":
        records += _distances(described(scene, scene.seed), scene, kinds)
    return [{**record, "fit_seconds": seconds} for record in records]


def _distances(found: dict[str, Callable], scene: Scene, kinds: Iterable[str]) -> list[dict]:
    return [record for name, score in found.items() for record in evaluate_detector(name, score, scene, kinds)]


def run_kept(folder: Path, scene: str, method: str, seed: int) -> list[dict]:
    """`run_shifts` of the reported kinds, from its file if there is one."""
    path = folder / f"{scene.replace('/', '-')}_{method.replace(', ', '-')}_{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    torch.set_num_threads(1)
    records = run_shifts(scene, method, seed)
    write_atomic(path, json.dumps(records).encode())
    return records


def read_kept(folder: Path) -> pd.DataFrame:
    """All records of a folder, a row each."""
    return pd.DataFrame([record for path in sorted(folder.glob("*.json")) for record in json.loads(path.read_text())])


def detection_table(records: pd.DataFrame, score: str = "auroc") -> pd.DataFrame:
    """Methods by kinds of shift: mean over the shifts of a kind, then over seeds; `mean` and `least` over kinds."""
    each = records.groupby(["method", "kind", "seed"])[score].mean()
    table = each.groupby(["method", "kind"]).mean().unstack("kind")
    whole = table.dropna()  # what does not take every kind has no mean
    return table.assign(mean=whole.mean(axis=1), least=whole.min(axis=1)).sort_values("mean", ascending=False)


def cost_table(records: pd.DataFrame) -> pd.DataFrame:
    """What novelty costs and gives: `nsac` beside the same model without any separation.

    By scene: ratios of RMSE and CRPS inside the data, and squared error over variance there. By kind of shift: 90 %
    coverage of both, and the share of what was missing to 90 % that is still missing.
    """
    ours, plain = "nsac", "nsac, likelihood"
    inside = records.dropna(subset=["rmse_inside"]).drop_duplicates(["method", "scene", "seed"])
    inside = inside.assign(ratio=inside["rmse_inside"] ** 2 / inside["variance_inside"])
    paired = inside.pivot(
        index=["scene", "seed"], columns="method", values=["rmse_inside", "crps_inside", "ratio"]
    ).dropna(subset=[("ratio", ours), ("ratio", plain)])
    known = {score: paired[score][ours] / paired[score][plain] for score in ("rmse_inside", "crps_inside")}
    known |= {f"error over variance, {name}": paired["ratio"][name] for name in (ours, plain)}
    cover = records.pivot(index=["kind", "scene", "shift", "seed"], columns="method", values="coverage_90")
    cover = cover[[ours, plain]].dropna()
    missing = (0.9 - cover).clip(lower=0).groupby("kind").mean()
    outside = {f"coverage, {name}": cover[name].groupby("kind").mean() for name in (ours, plain)}
    outside["still missing"] = missing[ours] / missing[plain]
    return pd.concat([pd.DataFrame(known).groupby("scene").mean(), pd.DataFrame(outside)])


def markdown(frame: pd.DataFrame) -> str:
    """A frame as a table of a Markdown page; what is not there stays empty."""
    head = [frame.index.name or "", *map(str, frame.columns)]
    rows = [[str(name), *("" if pd.isna(v) else f"{v:.3f}" for v in row)] for name, row in frame.iterrows()]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


PAGE = """# Shifts

Made by `nsac bench shifts` from the records in `results/shifts`: {seeds} seeds, {runs} runs. What the scenes are and
how a shift is made is in `nsac.lab.shifts.scenes`; why the default is what it is, in
[decision 7](decisions/0007-novelty.md).

## Is it noticed?
AUROC of the epistemic deviation of shifted rows against rows like those of training; mean over the shifts of a kind,
then over seeds. 0.5 is chance. Beside the methods: distances among the inputs, among the features of `gmle` and among
the descriptions `nsac` looks at, a Gaussian process (tables only) and noise.

**Scenes that confirm**: other bearings, seasons and tables, written down before the model was changed for the last
time, and run once it was settled ({confirming}). Seeds: {counts}.

{confirmed}
**The other scenes.** These were looked at while the code was mended, so here the numbers of `nsac` are optimistic
(decision 7 tells how).

{auroc}
All scores, mean over the kinds of all scenes: AUROC, AUPR and FPR95 of the epistemic deviation, AUROC of the total one,
Spearman's rank correlation of the epistemic deviation with the error over rows of both sides, and area under the
sparsification error (AUSE, lower is better); NLL and 90 % coverage are of shifted rows.

{scores}
## What it costs inside the data, and what it gives outside
`nsac` beside the same model without any separation term (`nsac, likelihood`): RMSE and CRPS inside the data as ratios,
squared error over total variance there; and 90 % coverage under each kind of shift, with the share of the shortfall
from 90 % (shift by shift, seed by seed) that is left. All scenes.

{cost}"""

SCORES = {
    "auroc": "AUROC", "aupr": "AUPR", "fpr95": "FPR95", "auroc_total": "AUROC, total",
    "error_correlation": "rank correlation", "ause": "AUSE", "nll": "NLL", "coverage_90": "coverage",
}  # fmt: skip
"""Scores of the page, and their names there."""


def score_table(records: pd.DataFrame) -> pd.DataFrame:
    """Methods by scores: mean over the shifts of a kind, then over seeds, then over kinds."""
    means = {title: detection_table(records, score)["mean"] for score, title in SCORES.items()}
    return pd.DataFrame(means).dropna(subset=["AUROC"]).sort_values("AUROC", ascending=False)


def page(records: pd.DataFrame) -> str:
    """All tables, as a page of the documentation."""
    runs = records.drop_duplicates(["method", "scene", "seed"])
    runs = runs[runs["method"].isin(list(COMPARED))]
    both = {"nsac", "nsac, likelihood"} <= set(records["method"])
    confirm = records["scene"].isin(CONFIRMING)
    return PAGE.format(
        seeds=records["seed"].nunique(),
        runs=len(runs),
        confirming=", ".join(f"`{name}`" for name in CONFIRMING),
        counts=", ".join(
            f"`{m}` {n}" for m, n in runs[runs["scene"].isin(CONFIRMING)].groupby("method")["seed"].nunique().items()
        ),
        confirmed=markdown(detection_table(records[confirm])) if confirm.any() else "Not run.\n",
        auroc=markdown(detection_table(records[~confirm])),
        scores=markdown(score_table(records)),
        cost=markdown(cost_table(records)) if both else "Not run.\n",
    )


def section(records: pd.DataFrame) -> Section:
    """The suite as a section of the report."""
    noticed = "AUROC of the epistemic deviation of shifted rows against rows like those of training; 0.5 is chance."
    known = records[records["method"].isin(list(COMPARED))]
    sheets = [_sheet("Is it noticed?", detection_table(known), noticed + " Mean over shifts of a kind, then seeds.")]
    sheets.append(_sheet("All scores", score_table(known), "Mean over kinds; NLL and coverage are of shifted rows."))
    if {"nsac", "nsac, likelihood"} <= set(records["method"]):
        told = "nsac beside the same model without separation: ratios inside the data, coverage of 90 % outside."
        sheets.append(_sheet("What it costs, and what it gives", cost_table(records), told))
    runs = known.drop_duplicates(["method", "scene", "seed"])
    text = (
        f"Does uncertainty rise where the data does not reach? {len(runs)} runs on {runs['scene'].nunique()} scenes of "
        f"real data, {runs['seed'].nunique()} seeds: other bearings, rigs, seasons, frozen sensors, regions left out."
    )
    return Section("shifts", "Shifts", text, sheets)


def _sheet(title: str, frame: pd.DataFrame, note: str) -> Sheet:
    rows = [[str(name), *(None if pd.isna(v) else round(float(v), 3) for v in row)] for name, row in frame.iterrows()]
    return Sheet(title, [frame.index.name or "", *(str(c).replace("_", " ") for c in frame.columns)], rows, note)
