"""`nsac bench list`, `run`, `status` and `table`: the grid of tasks, methods and seeds."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Column

from nsac.cli import common
from nsac.cli.common import GRID_FOLDER, AsJson, console, errors, merge_deprecated, one_line_errors, show, stop

if TYPE_CHECKING:
    from nsac.lab.grid.config import RunConfig
    from nsac.lab.grid.executor import AbstractExecutor
    from nsac.lab.grid.store import Record, Store

HEADINGS = {
    "mse": "MSE", "nll": "NLL", "crps": "CRPS", "ece_paper": "ECE", "calibration_error": "cal. error",
    "coverage_90": "90 % PI", "coverage_90_calibrated": "conf. PI",
}  # fmt: skip
"""Headings of metrics in the printed table."""
LEGEND = (
    "ECE: as the paper defines it. cal. error: quantile calibration error. 90 % PI, conf. PI: coverage of 90 % "
    "prediction intervals, before and after conformal calibration."
)

Tasks = Annotated[
    list[str] | None, typer.Argument(help="Tasks of `nsac bench list`. Default: the paper's eight.", show_default=False)
]
TableTasks = Annotated[
    list[str] | None, typer.Argument(help="Tasks of `nsac bench list`. Default: all with records.", show_default=False)
]
Protocol = Annotated[str | None, typer.Option(help="Protocol: paper or sound. Default: both.")]
OldMethods = Annotated[str | None, typer.Option("--methods", hidden=True)]


def list_(
    records: common.GridRecords = GRID_FOLDER, as_json: AsJson = False, old_out: common.OldRecords = None
) -> None:
    """List all tasks, their methods, and how many runs of seeds 0 to 4 have a record."""
    from nsac.lab.grid.config import config_names, grid, methods_of, protocols_of
    from nsac.lab.grid.store import Store

    with one_line_errors():
        store, rows = Store(common.choose_folder(records, old_out)), []
        for task in config_names():
            for protocol in protocols_of(task):
                runs = grid([task], protocols=[protocol])
                done = sum(config.name in store for config in runs)
                about = {"task": task, "protocol": protocol, "methods": list(methods_of(task))}
                rows.append({**about, "done": done, "runs": len(runs)})
    texts = [(r["task"], r["protocol"], " ".join(r["methods"]), f"{r['done']} of {r['runs']}") for r in rows]
    show(as_json, rows, common.make_table(("task", "protocol", "methods", "done"), texts))


def run(
    tasks: Tasks = None,
    method: common.Methods = None,
    seeds: common.Seeds = "0-4",
    protocol: Protocol = None,
    executor: Annotated[
        str, typer.Option(help="Where to run: here (this process), processes (of this machine) or ray (a cluster).")
    ] = "here",
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray: HOST:PORT of the head node.")] = None,
    track: Annotated[str | None, typer.Option(help="Experiment tracker that logs every record: mlflow.")] = None,
    dry_run: common.DryRun = False,
    out: common.WrittenRecords = GRID_FOLDER,
    as_json: AsJson = False,
    old_methods: OldMethods = None,
) -> None:
    """Train and score each task, method and seed. Interrupt it at any time; the same command resumes.

    A run that has a record is skipped.
    """
    from nsac.lab.grid.config import PAPER_TASKS, PROTOCOLS, grid
    from nsac.lab.grid.store import Store

    with one_line_errors(kept=out):
        methods = merge_deprecated(method, old_methods, "--method")
        protocols = [protocol] if protocol else list(PROTOCOLS)
        configs, store = grid(tasks or PAPER_TASKS, methods, common.parse_seeds(seeds), protocols), Store(out)
        todo = [config for config in configs if config.name not in store]
        place = _executor(executor, workers, address)
        if dry_run:
            names = ("task", "protocol", "method", "seed")
            facts = [{name: getattr(config, name) for name in (*names, "name")} for config in todo]
            plan = [(" ".join(str(about[name]) for name in names), about) for about in facts]
            common.print_plan("runs", len(configs), plan, as_json)
            return
        if track not in (None, "mlflow"):
            stop(f"`--track` must be mlflow. Got {track!r} instead.")
        if todo:
            common.check_records(out)
        failed = _execute(configs, store, place, track is not None, as_json)
        done = sum(config.name in store for config in configs)
    common.print_outcome("runs", len(configs), done, failed, out, as_json)


def status(
    tasks: TableTasks = None,
    seeds: common.Seeds = "0-4",
    protocol: Protocol = None,
    records: common.GridRecords = GRID_FOLDER,
    as_json: AsJson = False,
) -> None:
    """Print which seeds of each task and method have a record, and how many of their records are stale."""
    from nsac.lab.grid.config import PROTOCOLS, config_names, grid
    from nsac.lab.grid.store import Store

    with one_line_errors():
        store, protocols = Store(records), [protocol] if protocol else list(PROTOCOLS)
        names = set(store.names())
        chosen = tasks or [task for task in config_names() if any(name.startswith(f"{task}_") for name in names)]
        if not chosen:
            stop(f"{records} has no records. Name tasks, or run `nsac bench run` first.")
        rows: dict[str, dict] = {}
        for config in grid(chosen, None, common.parse_seeds(seeds), protocols):
            place = {"task": config.task, "protocol": config.protocol, "method": config.method}
            row = rows.setdefault("_".join(place.values()), {**place, "done": [], "to_do": [], "stale": 0})
            row["done" if config.name in names else "to_do"].append(config.seed)
            same_run = config.name.removesuffix(config.key)
            row["stale"] += sum(name.startswith(same_run) for name in names - {config.name})
    texts = []
    for row in rows.values():
        done, to_do = (" ".join(map(str, row[name])) for name in ("done", "to_do"))
        texts.append((row["task"], row["protocol"], row["method"], done, to_do, str(row["stale"])))
    heading = ("task", "protocol", "method", "seeds done", "to do", "stale")
    note = "Stale records (the configuration or code has changed) are ignored."
    show(as_json, list(rows.values()), common.make_table(heading, texts), note)


def table(
    tasks: TableTasks = None,
    method: common.Methods = None,
    protocol: Protocol = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Metric; repeat the option for several. Default: the main ones."),
    ] = None,
    records: common.GridRecords = GRID_FOLDER,
    as_json: AsJson = False,
    old_methods: OldMethods = None,
    old_metrics: Annotated[str | None, typer.Option("--metrics", hidden=True)] = None,
    old_out: common.OldRecords = None,
) -> None:
    """Print mean and standard deviation over seeds, with the paper's mean in brackets."""
    from nsac.lab.grid.table import TABLE_METRICS, table_rows

    with one_line_errors():
        methods = merge_deprecated(method, old_methods, "--method")
        metrics = merge_deprecated(metric, old_metrics, "--metric")
        chosen = common.grid_records(common.choose_folder(records, old_out), tasks, protocol)
        chosen = [record for record in chosen if methods is None or record.method in methods]
        rows = table_rows(chosen)
        if as_json:
            show(True, [row for row in rows if metrics is None or row["metric"] in metrics])
            return
        known = {row["metric"] for row in rows}
        if unknown := [name for name in metrics or TABLE_METRICS if name not in known]:
            stop(f"There is no metric {unknown[0]!r} in these records. Available: {', '.join(sorted(known))}.")
        _print_tables(chosen, rows, metrics or list(TABLE_METRICS))


def _executor(name: str, workers: int | None, address: str | None) -> "AbstractExecutor":
    from nsac.lab.grid.executor import EXECUTORS

    common.check_choice("--executor", name, EXECUTORS)
    settings = {}
    for option, value, owner in (("workers", workers, "processes"), ("address", address, "ray")):
        if name == owner:
            settings[option] = value
        elif value is not None:
            stop(f"`--{option}` needs `--executor {owner}`. Got `--executor {name}` instead.")
    return EXECUTORS[name](**settings)


def _execute(
    configs: list["RunConfig"], store: "Store", executor: "AbstractExecutor", track: bool, as_json: bool
) -> list[dict[str, str]]:
    from nsac.cli.board import Board
    from nsac.lab.grid.executor import execute

    todo = [config for config in configs if config.name not in store]
    known = store.records(config.name for config in configs)
    failed, log = [], lambda record: None
    if track:
        from nsac.lab.grid.store import mlflow_logger

        log = mlflow_logger()
    for record in known:
        log(record)
    with Board(errors if as_json else console, todo, executor, known) as board:
        for event in execute(todo, store, executor):
            board(event)
            if event.record is not None:
                log(event.record)
            if event.kind == "failed":
                failed.append({"name": event.config.name, "error": event.error})
    return failed


def _print_tables(records: list["Record"], rows: list[dict], metrics: list[str]) -> None:
    from nsac.lab.grid.table import SIGNIFICANCE_LEVEL, against_best

    for task, protocol in dict.fromkeys((row["task"], row["protocol"]) for row in rows):
        some = [record for record in records if (record.task, record.protocol) == (task, protocol)]
        cells = {(r["method"], r["metric"]): r for r in rows if (r["task"], r["protocol"]) == (task, protocol)}
        p_values = {name: against_best(some, name) for name in metrics}
        title = f"{task}, {protocol} protocol, unit: {some[0].unit}"
        names = ["method", "n", *(HEADINGS.get(name, name) for name in metrics)]
        head, texts = [Column(name, overflow="fold") for name in names], []
        for method in dict.fromkeys(method for method, _ in cells):
            scores = [_cell(cells.get((method, name)), p_values[name].get(method, 0.0)) for name in metrics]
            texts.append((method, str(max(r["n"] for (m, _), r in cells.items() if m == method)), *scores))
        style = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}
        console.print(common.make_table(head, texts, title=title, **style))
    marks = (
        f"n: number of seeds. *: best mean. ~: not significantly different from the best (paired t-test over seeds, "
        f"p >= {SIGNIFICANCE_LEVEL}). In brackets: the paper's mean."
    )
    show(False, None, marks, LEGEND)


def _cell(row: dict | None, p_value: float | None) -> str:
    """Mean, standard deviation and the paper's mean; a p-value of None marks the best method."""
    from nsac.lab.grid.table import SIGNIFICANCE_LEVEL

    if row is None:
        return ""
    if row["mean"] is None:
        return "not finite"
    mark = ""
    if p_value is None:
        mark = "*"
    elif p_value >= SIGNIFICANCE_LEVEL:
        mark = "~"
    std = "" if row["std"] is None else f"\n±{row['std']:.2g}"
    paper = "" if row["paper"] is None else f"\n({row['paper']:g})"
    return f"{row['mean']:.4g}{mark}{std}{paper}"
