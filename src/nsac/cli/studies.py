"""`nsac demo`, `nsac bench study` and `figure`: the paper's studies beside its main table, and its figures."""

from pathlib import Path
from typing import Annotated

import typer

from nsac.cli import common
from nsac.cli.common import AsJson, console, errors, one_line_errors, show, stop

DEMO_SCORES = {
    "aleatoric": "aleat.", "epistemic": "epist.", "total": "total", "rmse": "RMSE", "ratio": "RMSE/total",
    "coverage": "90 % PI",
}  # fmt: skip
"""Scores of `nsac demo` and their headings."""
DEMO_CAPTION = (
    "Aleatoric, epistemic and total standard deviation of the prediction (that of the observation noise is {noise}), "
    "and coverage of the 90 % prediction interval; 100 test spirals of each direction of rotation."
)


def demo(
    out: common.Figure = Path("nsac-demo.png"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of data, wiring, weights and noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on irregularly sampled spirals; draw aleatoric and epistemic uncertainty with and without training data.

    The spirals of the training data turn one way. Predicted are also later times, and spirals that turn the other way.
    """
    from nsac.lab.studies.demo import run_demo  # here, so that `nsac --help` does not import torch
    from nsac.lab.studies.figure import demo_figure
    from nsac.training import ProgressBar

    with one_line_errors():
        common.check_out(out)
        with ProgressBar(errors) as progress:
            result = run_demo(steps, seed, progress)
        demo_figure(result, out)
    scores = result.rows()
    rows = [(row["region"], *(f"{row[name]:.3f}" for name in DEMO_SCORES)) for row in scores]
    table = common.make_table(["", *DEMO_SCORES.values()], rows, caption=DEMO_CAPTION.format(**scores[0]))
    show(as_json, {"rows": scores, "figure": str(out)}, table, f"Figure: {out}")


def study(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Studies, for instance regulariser or freezing. Default: all.", show_default=False),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="Range or comma-separated list of seeds. Default: all of a study.")
    ] = None,
    dry_run: common.DryRun = False,
    out: common.WrittenRecords = common.STUDY_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Run the paper's studies and print their tables. Interrupt it at any time; the same command resumes.

    Studies: regulariser (Table 2), freezing (Table 3), cost, hyperparameters and lengths. A setting that has a record
    is skipped. `nsac bench figure NAME` draws the figure of a study.
    """
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import StudyStore, found, settings
    from nsac.lab.studies.run import execute_studies

    with one_line_errors(kept=out):
        common.check_names("study", names, STUDIES)
        chosen, store = names or list(STUDIES), StudyStore(out)
        every = {setting.name: setting for name in chosen for setting in settings(name)}
        if seeds is not None:
            wanted = common.parse_seeds(seeds)
            every = {name: setting for name, setting in every.items() if setting.seed in wanted}
        if not every:
            stop(f"No setting of {', '.join(chosen)} has a seed of `--seeds {seeds}`. Leave out `--seeds` to run all.")
        todo = [setting for name, setting in every.items() if name not in store]
        if dry_run:
            plan = [(s.title, {"study": s.study, **s.point, "seed": s.seed, "name": s.name}) for s in todo]
            common.print_plan("settings", len(every), plan, as_json)
            return
        if todo:
            common.check_records(out)
        failed, shown = [], errors if as_json else console
        for i, event in enumerate(execute_studies(todo, store), start=1):
            seconds = "" if event.record is None else f"{event.record.seconds['wall']:.0f} s"
            shown.print(f"{i}/{len(todo)} {event.setting.title}: {event.error or seconds}", soft_wrap=True)
            if event.kind == "failed":
                failed.append({"name": event.setting.name, "error": event.error})
        if not as_json:
            records = [record for record in common.study_records(out) if record.name in every]
            for name in chosen:
                if answers := found(name, records):
                    show(False, None, *map(common.sheet_table, STUDIES[name].sheets(answers)))
        done = sum(name in store for name in every)
    common.print_outcome("settings", len(every), done, failed, out, as_json)


def speed(
    dry_run: common.DryRun = False, out: common.WrittenRecords = common.STUDY_FOLDER, as_json: AsJson = False
) -> None:
    """Measure run time and memory of all methods, and print the table; the same as `nsac bench study cost`."""
    study(["cost"], dry_run=dry_run, out=out, as_json=as_json)


def figure(
    names: Annotated[
        list[str] | None, typer.Argument(help="Figures. Default: all that have records.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the figures to.")] = Path("docs/figures"),
    records: common.GridRecords = common.GRID_FOLDER,
    studies: common.StudyRecords = common.STUDY_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Draw the paper's figures from records, as PNG files."""
    from nsac.lab.grid.store import Store
    from nsac.lab.grid.table import current_records
    from nsac.lab.report.figures import picture_groups, pictures

    with one_line_errors():
        common.check_names("figure", names, picture_groups())
        common.check_records(out)
        drawn = pictures(current_records(Store(records))[0], common.study_records(studies))
        drawn = [picture for picture in drawn if not names or picture.group in names]
        if not drawn:
            stop(f"{records} and {studies} have no records for it. Run `nsac bench run` or `nsac bench study` first.")
        out.mkdir(parents=True, exist_ok=True)
        rows = []
        for picture in drawn:
            path = out / f"{picture.name}.png"
            path.write_bytes(picture.png())
            rows.append({"name": picture.name, "place": picture.place, "file": str(path)})
    show(as_json, rows, *(f"{row['place']}: {row['file']}" for row in rows))


def frozen(out: common.Figure = Path("frozen.png"), studies: common.StudyRecords = common.STUDY_FOLDER) -> None:
    """Deprecated: `nsac bench study freezing`, then `nsac bench figure freezing`."""
    _run_deprecated("frozen", "freezing", None, studies, out)


def ablation(
    out: common.Figure = Path("ablation.png"),
    studies: common.StudyRecords = common.STUDY_FOLDER,
    seed: Annotated[int | None, typer.Option(min=0, help="Run this seed only.")] = None,
) -> None:
    """Deprecated: `nsac bench study regulariser`, then `nsac bench figure regulariser`."""
    _run_deprecated("ablation", "regulariser", None if seed is None else str(seed), studies, out)


def _run_deprecated(old: str, name: str, seeds: str | None, folder: Path, out: Path) -> None:
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import found

    common.note_deprecated(f"nsac bench {old}", f"nsac bench study {name}` and `nsac bench figure {name}")
    common.check_out(out)
    study([name], seeds=seeds, out=folder)
    with one_line_errors():
        draw = STUDIES[name].draw
        assert draw is not None
        out.parent.mkdir(parents=True, exist_ok=True)
        draw(found(name, common.study_records(folder))).savefig(out)
    console.print(f"Figure: {out}", soft_wrap=True)
