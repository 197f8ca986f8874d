"""`nsac drive`: record an expert, train pilots, let them drive, and see what they know about what they do not know."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from nsac.cli.common import AsJson, stop
from nsac.cli.studies import print_sheet

drive = typer.Typer(no_args_is_help=True, help="CarRacing and Udacity: pilots that know when they do not know.")
console = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

UNSEEN, RESULTS, BENCH = 1000, Path("results/driving"), Path("results/bench")

Model = Annotated[Path, typer.Argument(help="A folder that `nsac drive train` wrote.", show_default=False)]
Track = Annotated[int, typer.Option(min=0, help="Seed of the track.")]
Results = Annotated[Path, typer.Option("--results", help="Folder of the records; what is there is not run again.")]


@drive.command()
def record(
    frames: Annotated[int, typer.Option(min=1, help="How many; the paper has 48102.")] = 30_000,
    out: Annotated[Path | None, typer.Option(help="Folder; by default NSAC_RECORDING, or in the cache.")] = None,
    as_json: AsJson = False,
) -> None:
    """Record the expert. Stop it at any time: the same command goes on."""
    from nsac.lab.driving.recording import RecordConfig, recordings_folder
    from nsac.lab.driving.recording import record as make

    folder = out or recordings_folder()
    with _one_line(), errors.status("recording") as status:
        made = make(folder, RecordConfig(frames), lambda done: status.update(f"recording: {done} of {frames} frames"))
        about = {"folder": str(folder), "frames": len(made), "laps": len(made.laps.unique()), "digest": made.digest}
    _say(about, as_json, f"{len(made)} frames of {about['laps']} laps in {folder}.")


@drive.command()
def train(
    task: Annotated[str, typer.Argument(help="carracing, carracing-48102 (of a larger recording) or udacity.")],
    out: Annotated[Path, typer.Option(help="Folder to write the pilot to.", show_default=False)],
    method: Annotated[str, typer.Option(help="nsac, gmle, mcd, de, der or sdenet.")] = "nsac",
    seed: Annotated[int, typer.Option(min=0, help="Of split, weights and noise.")] = 0,
    results: Annotated[Path, typer.Option("--results", help="Folder of the benchmark's records.")] = BENCH,
    as_json: AsJson = False,
) -> None:
    """Clone a driver, score it on held-out frames, and keep both: the pilot, and a record for `nsac bench table`."""
    from nsac.lab.driving.records import SHOWN
    from nsac.lab.driving.school import train_pilot
    from nsac.training import ProgressBar

    if task.partition("-")[0] not in SHOWN:
        stop(f"`task` must be one of {', '.join(SHOWN)}. Got {task!r} instead.")
    with _one_line(), ProgressBar(errors) as report:
        _, made = train_pilot(task, method, seed, out, results, report)
    about = {"folder": str(out), "record": made.name, "metrics": made.metrics, "seconds": made.seconds}
    scores = ", ".join(f"{name} {made.metrics[name]:.4g}" for name in ("mse", "nll", "crps", "coverage_90"))
    _say(about, as_json, f"{out}: {scores}, on held-out frames.")


@drive.command()
def lap(
    model: Annotated[str, typer.Argument(help="A folder that `nsac drive train` wrote, or `expert`.")],
    track: Track = UNSEEN,
    colours: Annotated[int | None, typer.Option(help="Seed of other colours.")] = None,
    film: Annotated[Path | None, typer.Option(help="Write a .gif or .mp4 of the drive.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write everything, action by action, as JSON.")] = None,
    threshold: Annotated[float | None, typer.Option(help="A supervisor acts above this doubt.")] = None,
    reaction: Annotated[str, typer.Option(help="Of the supervisor: `hand over` or `slow`.")] = "hand over",
    as_json: AsJson = False,
) -> None:
    """Drive one lap, and tell how it went and how sure the pilot was."""
    from nsac.lab.driving.film import Film
    from nsac.lab.driving.lap import drive_lap
    from nsac.lab.driving.pilot import load_pilot
    from nsac.lab.driving.supervisor import DoubtSupervisor
    from nsac.lab.driving.world import PLAIN, World, random_colours

    with _one_line():
        driver = None if model == "expert" else load_pilot(model, "carracing")
        watch = None if film is None else Film(threshold)
        scheme = PLAIN if colours is None else random_colours(colours)
        beside = None if threshold is None else DoubtSupervisor(threshold, reaction)  # pyright: ignore[reportArgumentType]
        driven = drive_lap(World(), driver, track, scheme, beside, watch)
        if watch is not None and film is not None:
            watch.save(film)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(driven.to_dict()), encoding="utf-8")
    about = {"track": track, **driven.measures()}
    rows = [f"{name}: {value:.4g}" for name, value in about.items()]
    _say(about, as_json, *rows, *([f"film: {film}"] if film else []))


@drive.command()
def test(
    model: Model,
    tracks: Annotated[int, typer.Option(min=1, help="CarRacing: unseen tracks.")] = 10,
    trials: Annotated[int, typer.Option(min=0, help="CarRacing: colourings of each.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="CarRacing: seed of the first track.")] = UNSEEN,
    reactions: Annotated[
        str, typer.Option(help="Of supervisors, with commas between; '' for none.")
    ] = "hand over,slow",
    results: Results = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Closed loop: clean laps, laps in other colours, and both with a supervisor. Of Udacity's: another road."""
    from dataclasses import asdict

    from nsac.lab.driving.pilot import load_pilot
    from nsac.lab.driving.records import DriveStore, make_record, record_name
    from nsac.lab.driving.school import other_road
    from nsac.lab.driving.trials import TrialConfig, run_trials

    with _one_line():
        pilot, store = load_pilot(model), DriveStore(results)
        if pilot.task == "udacity":
            made = other_road(pilot)
            store.write(made)
        else:
            chosen: Any = tuple(each.strip() for each in reactions.split(",") if each.strip())
            config = TrialConfig(first, tracks, trials, reactions=chosen)
            name = record_name(pilot.config, "trials", asdict(config))
            if name in store:
                made = store.read(name)
            else:
                start, count = time.process_time(), 0

                def tell(driven, kind: str) -> None:
                    nonlocal count
                    count += 1
                    status.update(f"lap {count}, {kind}: {'finished' if driven.finished else 'failed'}")

                with errors.status("driving") as status:
                    found = run_trials(pilot, config, tell)
                details = {k: v for k, v in asdict(found).items() if k != "measures"}
                numbers = asdict(config), found.measures, details, time.process_time() - start
                made = make_record(pilot.config, "trials", *numbers)
                store.write(made)
    rows = [f"{name}: {'none' if value is None else f'{value:.4g}'}" for name, value in made.measures.items()]
    _say({"record": made.name, **made.measures}, as_json, *rows)


@drive.command()
def saliency(
    models: Annotated[list[Path], typer.Argument(help="Folders that `nsac drive train` wrote.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("saliency.png"),
    track: Track = UNSEEN,
    at: Annotated[str, typer.Option(help="Actions of the expert's lap, with commas between.")] = "60,120,180,240",
) -> None:
    """Where pilots look: Grad-CAM of the steering at moments of a lap, the same ones for all."""
    from nsac.lab.driving.figure import saliency_figure
    from nsac.lab.driving.pilot import load_pilot
    from nsac.lab.driving.world import World

    with _one_line():
        moments = [int(number) for number in at.split(",")]
        pilots = [load_pilot(model, "carracing") for model in models]
        saliency_figure(pilots, World(), track, moments).savefig(out)
    console.print(f"Picture: {out}", soft_wrap=True)


@drive.command()
def figure(
    models: Annotated[list[Path], typer.Argument(help="Folders that `nsac drive train` wrote.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("closed-loop.png"),
    track: Track = UNSEEN,
    results: Results = RESULTS,
) -> None:
    """The paper's closed-loop figure: map, distances, actions, saliency, and success in other colours."""
    from nsac.lab.driving.figure import closed_loop_figure
    from nsac.lab.driving.pilot import load_pilot
    from nsac.lab.driving.records import DriveStore
    from nsac.lab.driving.world import World

    with _one_line():
        pilots = [load_pilot(model, "carracing") for model in models]
        closed_loop_figure(pilots, World(), track, DriveStore(results).of("trials")).savefig(out)
    console.print(f"Picture: {out}", soft_wrap=True)


@drive.command()
def table(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Mean and deviation over seeds of what was measured on the road."""
    from nsac.lab.driving.records import DriveStore, sheets, table_rows

    with _one_line():
        records = DriveStore(results).records()
    if not records:
        stop(f"{results} has no records. Make some with `nsac drive test MODEL`.")
    if as_json:
        print(json.dumps(table_rows(records)))
        return
    for sheet in sheets(records):
        print_sheet(sheet)


@drive.command()
def udacity(
    model: Model,
    port: Annotated[int, typer.Option(min=0, help="Where the simulator looks for a driver.")] = 4567,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    speed: Annotated[float, typer.Option(min=1, help="Miles per hour.")] = 15.0,
    threshold: Annotated[float | None, typer.Option(help="Above this doubt it goes at half that speed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Drive the Udacity simulator: start this, then the simulator in autonomous mode."""
    from nsac.lab.driving.live import RoadDriver, log_line, serve
    from nsac.lab.driving.pilot import load_pilot

    def tell(told) -> None:
        if as_json:
            print(json.dumps(log_line(told)), flush=True)
        elif told.error:
            errors.print(f"Error: {told.error}", soft_wrap=True)

    with _one_line():
        driver = RoadDriver(load_pilot(model, "udacity"), speed, threshold, tell)
        serve(driver, host, port, lambda taken: errors.print(f"Waiting for the simulator at {host}:{taken}."))


def _say(about: dict[str, Any], as_json: bool, *lines: str) -> None:
    if as_json:
        print(json.dumps(about))
    else:
        for line in lines:
            console.print(line, soft_wrap=True)


@contextmanager
def _one_line() -> Iterator[None]:
    """Whatever is wrong is said in one line."""
    from nsac.estimators.files import ModelError
    from nsac.lab.datasets import DataError
    from nsac.lab.driving.errors import DrivingError
    from nsac.lab.grid.store import RecordError

    try:
        yield
    except (DrivingError, DataError, ModelError, RecordError, ValueError, OSError) as err:
        stop(err)
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(130) from None
