"""`nsac drive`: record an expert, train driving policies, and test them and their uncertainty in closed loop."""

import json
import time
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsac.cli.common import (
    DRIVING_FOLDER,
    GRID_FOLDER,
    AsJson,
    check_out,
    check_records,
    errors,
    one_line_errors,
    sheet_table,
    show,
    stop,
)

if TYPE_CHECKING:
    from nsac.lab.driving.lap import Lap
    from nsac.lab.driving.live import Control
    from nsac.lab.driving.policy import DrivingPolicy
    from nsac.lab.driving.records import DriveRecord
    from nsac.lab.driving.trials import TrialConfig

HELP = (
    "CarRacing and Udacity: closed-loop driving with uncertainty.\n\n"
    "A try of about a minute: `nsac drive record --frames 600 --out try/frames`, then `nsac drive train carracing "
    "--recording try/frames --out try/policy`, then `nsac drive lap try/policy`."
)
drive = typer.Typer(no_args_is_help=True, help=HELP)

UNSEEN = 1000
"""Seed of the first track that is used for tests only, `trials.UNSEEN_SEED`."""
LABELS = {"doubt": "steering_std"}
"""What is printed for a name that the records keep."""

Policy = Annotated[Path, typer.Argument(help="A folder that `nsac drive train` wrote.", show_default=False)]
Policies = Annotated[list[Path], typer.Argument(help="Folders that `nsac drive train` wrote.", show_default=False)]
Track = Annotated[int, typer.Option(min=0, help="Seed of the track.")]
Picture = Annotated[Path, typer.Option("--out", help="File of the picture.")]
Results = Annotated[Path, typer.Option("--results", help="Folder of the driving records.")]


@drive.command()
def record(
    frames: Annotated[int, typer.Option(min=4, help="Number of frames; the paper has 48102, a try 600.")] = 30_000,
    out: Annotated[Path | None, typer.Option(help="Folder; by default NSAC_RECORDING, or in the cache.")] = None,
    as_json: AsJson = False,
) -> None:
    """Record the expert in CarRacing. It can be interrupted at any time: the same command resumes it.

    With fewer than 2800 frames, laps are cut, so that there are at least four.
    """
    from nsac.lab.datasets.carracing import record_config, recordings_folder
    from nsac.lab.driving.expert import record as make

    folder = out or recordings_folder()
    check_records(folder)
    with one_line_errors(), errors.status("recording") as status:
        made = make(folder, record_config(frames), lambda done: status.update(f"recording: {done} of {frames} frames"))
    about = {"folder": str(folder), "frames": len(made), "laps": len(made.laps.unique()), "digest": made.digest}
    show(as_json, about, f"{len(made)} frames of {about['laps']} laps in {folder}.")


@drive.command()
def train(
    task: Annotated[str, typer.Argument(help="carracing, carracing-48102 (a larger recording) or udacity.")],
    out: Annotated[Path, typer.Option(help="Folder for the policy.", show_default=False)],
    method: Annotated[str, typer.Option(help="Uncertainty method: nsac, gmle, mcd, de, der or sdenet.")] = "nsac",
    seed: Annotated[int, typer.Option(min=0, help="Seed of split, weights and noise.")] = 0,
    results: Annotated[Path, typer.Option("--results", help="Folder of the benchmark's records.")] = GRID_FOLDER,
    recording: Annotated[
        Path | None,
        typer.Option(help="Folder that `nsac drive record` wrote. Default: NSAC_RECORDING, or in the cache."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy by behaviour cloning, and save it with its scores on held-out frames.

    A recording of another size, named by `--recording`, makes a try: a short training without a benchmark record.
    """
    from nsac.lab.driving.policy import TRY, train_policy
    from nsac.lab.driving.records import SHOWN
    from nsac.training import ProgressBar

    if task.partition("-")[0] not in SHOWN:
        stop(f"`task` must be one of {', '.join(SHOWN)}. Got {task!r} instead.")
    check_out(out, folder=True)
    with one_line_errors(), ProgressBar(errors) as report:
        _, made = train_policy(task, method, seed, out, results, report, recording)
    is_try = made.task.startswith(TRY)
    about = {"folder": str(out), "record": None if is_try else made.name, "try": is_try}
    about |= {"metrics": made.metrics, "seconds": made.seconds}
    scores = ", ".join(f"{name} {made.metrics[name]:.4g}" for name in ("mse", "nll", "crps", "coverage_90"))
    show(as_json, about, f"{out}: {scores}, on held-out frames.")


@drive.command()
def lap(
    policy: Annotated[str, typer.Argument(help="A folder that `nsac drive train` wrote, or `expert`.")],
    track: Track = UNSEEN,
    colours: Annotated[int | None, typer.Option(help="Seed of other colours.")] = None,
    film: Annotated[Path | None, typer.Option(help="Write a .gif or .mp4 of the lap.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the lap, action by action, as JSON.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="A supervisor acts above this standard deviation of the steering.")
    ] = None,
    reaction: Annotated[str, typer.Option(help="Reaction of the supervisor: `hand over` or `slow`.")] = "hand over",
    as_json: AsJson = False,
) -> None:
    """Drive one lap of CarRacing, and print its measures and the uncertainty of the policy."""
    from nsac.lab.driving.film import Film
    from nsac.lab.driving.lap import drive_lap
    from nsac.lab.driving.policy import load_policy
    from nsac.lab.driving.supervisor import UncertaintySupervisor
    from nsac.lab.driving.world import PLAIN, World, random_colours

    with one_line_errors():
        check_out(out)
        check_out(film, option="--film")
        driver = None if policy == "expert" else load_policy(policy, "carracing")
        watch = None if film is None else Film(threshold)
        scheme = PLAIN if colours is None else random_colours(colours)
        supervisor = None if threshold is None else UncertaintySupervisor(threshold, reaction)  # pyright: ignore[reportArgumentType]
        driven = drive_lap(World(), driver, track, scheme, supervisor, watch)
        if watch is not None and film is not None:
            watch.save(film)
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(driven.to_dict()), encoding="utf-8")
    about = {"track": track, **driven.measures()}
    lines = [f"{LABELS.get(name, name)}: {value:.4g}" for name, value in about.items()]
    if film is not None:
        lines.append(f"film: {film}")
    show(as_json, about, *lines)


@drive.command()
def test(
    policy: Policy,
    tracks: Annotated[int, typer.Option(min=1, help="CarRacing: number of unseen tracks.")] = 10,
    trials: Annotated[int, typer.Option(min=0, help="CarRacing: colourings of each.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="CarRacing: seed of the first track.")] = UNSEEN,
    reactions: Annotated[
        str, typer.Option(help="Comma-separated list of the supervisors' reactions; '' for none.")
    ] = "hand over,slow",
    out: Annotated[
        Path, typer.Option("--out", "--results", help="Folder of the driving records; existing ones are not run again.")
    ] = DRIVING_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Test a policy: in closed loop (CarRacing), or on another track than that of the training data (Udacity)."""
    from nsac.lab.driving.policy import load_policy
    from nsac.lab.driving.records import DriveStore, record_name
    from nsac.lab.driving.trials import TrialConfig, compare_tracks

    with one_line_errors():
        loaded, store = load_policy(policy), DriveStore(out)
        check_records(out)
        if loaded.task == "udacity":
            made = compare_tracks(loaded)
        else:
            chosen: Any = tuple(each.strip() for each in reactions.split(",") if each.strip())
            config = TrialConfig(first, tracks, trials, reactions=chosen)
            name = record_name(loaded.config, "trials", asdict(config))
            made = store.read(name) if name in store else _closed_loop(loaded, config)
        store.write(made)  # an existing record is kept
    texts = {name: "none" if value is None else f"{value:.4g}" for name, value in made.measures.items()}
    lines = [f"{LABELS.get(name, name)}: {text}" for name, text in texts.items()]
    show(as_json, {"record": made.name, **made.measures}, *lines)


@drive.command()
def saliency(
    policies: Policies,
    out: Picture = Path("saliency.png"),
    track: Track = UNSEEN,
    at: Annotated[str, typer.Option(help="Comma-separated list of actions of the expert's lap.")] = "60,120,180,240",
    as_json: AsJson = False,
) -> None:
    """Draw Grad-CAM of the steering at some moments of a lap, the same ones for all policies."""
    from nsac.lab.driving.figure import saliency_figure
    from nsac.lab.driving.policy import load_policy
    from nsac.lab.driving.world import World

    with one_line_errors():
        check_out(out)
        moments = [int(number) for number in at.split(",")]
        loaded = [load_policy(policy, "carracing") for policy in policies]
        saliency_figure(loaded, World(), track, moments).savefig(out)
    show(as_json, {"picture": str(out)}, f"Picture: {out}")


@drive.command()
def cells(
    policy: Policy,
    out: Picture = Path("cells.png"),
    track: Track = UNSEEN,
    laps: Annotated[int, typer.Option(min=1, help="Laps to fit thresholds on, and as many others to test them.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Draw the cells along a lap, and measure how well the gates alone tell left, straight and right."""
    from nsac.lab.driving.cells import study_cells
    from nsac.lab.driving.policy import load_policy
    from nsac.lab.driving.world import World

    with one_line_errors():
        check_out(out)
        loaded = load_policy(policy, "carracing")
        test = list(range(track, track + laps))
        facts, drawn = study_cells(loaded, World(), [number + laps for number in test], test)
        drawn.savefig(out)
    lines = []
    for name, each in facts["separation"].items():
        head = f"; head {each['best_head'] + 1} {100 * each['head']:.1f} %" if "head" in each else ""
        lines.append(f"{name}: {100 * each['mean']:.1f} %{head}; paper: {each.get('paper', 'no such measure')}")
    about = "Balanced accuracy of left, straight and right on unseen laps (33.3 % by chance), averaged over heads:"
    show(as_json, facts | {"picture": str(out)}, f"Picture: {out}", about, *lines)


@drive.command()
def figure(
    policies: Policies,
    out: Picture = Path("closed-loop.png"),
    track: Track = UNSEEN,
    results: Results = DRIVING_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Draw the paper's closed-loop figure: map, distances, actions, saliency, and success in other colours."""
    from nsac.lab.driving.figure import closed_loop_figure
    from nsac.lab.driving.policy import load_policy
    from nsac.lab.driving.records import DriveStore
    from nsac.lab.driving.world import World

    with one_line_errors():
        check_out(out)
        loaded = [load_policy(policy, "carracing") for policy in policies]
        closed_loop_figure(loaded, World(), track, DriveStore(results).of("trials")).savefig(out)
    show(as_json, {"picture": str(out)}, f"Picture: {out}")


@drive.command()
def table(results: Results = DRIVING_FOLDER, as_json: AsJson = False) -> None:
    """Print mean and standard deviation over seeds of all driving tests."""
    from nsac.lab.driving.records import DriveStore, sheets, table_rows

    with one_line_errors():
        records = DriveStore(results).records()
    if not records:
        stop(f"{results} has no records. Make some with `nsac drive test POLICY`.")
    show(as_json, table_rows(records), *map(sheet_table, sheets(records)))


@drive.command()
def udacity(
    policy: Policy,
    port: Annotated[int, typer.Option(min=0, help="Port that the simulator connects to.")] = 4567,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    speed: Annotated[float, typer.Option(min=1, help="Miles per hour.")] = 15.0,
    threshold: Annotated[
        float | None, typer.Option(help="Half speed above this standard deviation of the steering.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Drive the Udacity simulator: start this command, then the simulator in autonomous mode."""
    from nsac.lab.driving.live import TelemetryDriver, serve
    from nsac.lab.driving.policy import load_policy

    def report(control: "Control") -> None:
        if as_json:
            print(json.dumps(control.to_dict()), flush=True)
        elif control.error:
            errors.print(f"Error: {control.error}", soft_wrap=True)

    with one_line_errors():
        driver = TelemetryDriver(load_policy(policy, "udacity"), speed, threshold, report)
        serve(driver, host, port, lambda used: errors.print(f"Waiting for the simulator at {host}:{used}."))


def _closed_loop(policy: "DrivingPolicy", config: "TrialConfig") -> "DriveRecord":
    from nsac.lab.driving.records import make_record
    from nsac.lab.driving.trials import run_trials

    start, laps = time.process_time(), count(1)
    with errors.status("driving") as status:

        def report(driven: "Lap", kind: str) -> None:
            status.update(f"lap {next(laps)}, {kind}: {'finished' if driven.finished else 'failed'}")

        details = asdict(run_trials(policy, config, report))
    measures, seconds = details.pop("measures"), time.process_time() - start
    return make_record(policy.config, "trials", asdict(config), measures, details, seconds)
