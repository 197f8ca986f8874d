"""`nsac explain`: a page that shows what predictions are made of, lesion studies, and models without some neurons."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsac.cli import tables
from nsac.cli.common import AsJson, check_out, make_table, note, one_line_errors, parse_numbers, show, status
from nsac.cli.model import NOTHING_WRITTEN, load_model, read_for
from nsac.cli.options import Coverage, Data, DayFirst, Encoding, Model, TimeFormat, Verbose
from nsac.cli.reading import TableError

if TYPE_CHECKING:
    from pandas import DataFrame

DEFAULT_ROWS = 20  # rows of a table that are explained if none are named
SHOWN_NEURONS = 10  # of a lesion study, those with the largest effect
MAX_PAGE_BYTES = 3_000_000  # above, a note says that the page is large


def explain(
    model: Model,
    data: Data,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows, such as 0-19 or 3,7; of a series the rows to forecast from. By default the first 20 rows of a "
            "table, and the last of each series.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="HTML page to write.", show_default=False)] = None,
    lesions: Annotated[
        Path | None,
        typer.Option(
            help="CSV file to write: error and both variances if each neuron is silenced. The data needs the targets, "
            "and should not be that of `fit`.",
            show_default=False,
        ),
    ] = None,
    prune: Annotated[
        Path | None,
        typer.Option(help="Folder for a copy of the model without the neurons that it does not need on the data."),
    ] = None,
    coverage: Coverage = 0.9,
    time_format: TimeFormat = None,
    dayfirst: DayFirst = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Explain predictions: contributions of each value, attention and circuits, what-if; an interactive HTML page."""
    with one_line_errors(verbose, lost=NOTHING_WRITTEN):
        if out is None and lesions is None and prune is None:
            raise TableError(
                "There is no output file. Pass `--out page.html`, `--lesions table.csv` or `--prune folder`."
            )
        if not 0 < coverage < 1:
            raise TableError(f"`--coverage` must be strictly between 0 and 1. Got {coverage} instead.")
        check_out(out, data, model)
        check_out(lesions, data, model, option="--lesions")
        check_out(prune, data, model, option="--prune", folder=True)
        chosen = None if rows is None else parse_numbers(rows, "--rows", "row")
        estimator, targets = load_model(model)
        needed = targets if lesions is not None or prune is not None else ()
        frame = read_for(estimator, data, needed, encoding, time_format, dayfirst)
        facts, lines = {}, []
        if out is not None:
            with status("explaining"):
                explanation = _explain(estimator, frame, data, chosen, coverage)
                explanation.save(out)
            facts |= _page_facts(explanation, out)
            listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in facts["shares"].items())
            size = facts["bytes"] / 1e6
            lines.append(f"{out}: {len(facts['rows'])} rows, {size:.1f} MB. Shares of the mean: {listed}.")
        if lesions is not None or prune is not None:
            with status("silencing neurons"):
                facts |= _silence(estimator, frame, data, targets, lesions, prune, lines)
    show(as_json, facts, *lines)


def _page_facts(explanation: Any, out: Path) -> dict[str, Any]:
    size = out.stat().st_size
    if size > MAX_PAGE_BYTES:
        note(f"{out} has {size / 1e6:.1f} MB. Explain fewer rows for a smaller page.")
    shares = {name: round(float(share.mean()), 4) for name, share in explanation.shares.items()}
    facts: dict[str, Any] = {"page": str(out), "bytes": size, "rows": explanation.rows}
    return facts | {"features": explanation.features, "shares": shares}


def _silence(
    estimator: Any, frame: "DataFrame", path: Path, targets: list[str], table: Path | None, folder: Path | None,
    lines: list[Any],
) -> dict[str, Any]:  # fmt: skip
    """Lesion study and pruned model; what they found is added to the lines."""
    from nsac._io import write_atomic
    from nsac.explain.lesions import LAYERS, lesions, neurons, prune

    rows, y = frame, None
    if type(estimator).__name__ == "NSACRegressor":
        tables.find_columns(frame, targets, path)
        rows = tables.features(estimator, frame, path)
        y = frame[targets].to_numpy(dtype=float)
    facts: dict[str, Any] = {}
    if table is not None:
        study = lesions(estimator, rows, y)
        write_atomic(table, study.to_csv(index=False).encode())
        texts = [[str(v) if isinstance(v, (str, int)) else f"{100 * v:+.2f}" for v in line] for line in study.values]
        names = [*study.columns[:3], *(f"{name}, %" for name in study.columns[3:])]
        lines += [make_table(names, texts[:SHOWN_NEURONS], box=None, padding=(0, 1, 0, 0))]
        lines.append(f"{table}: {len(study)} neurons, of which the {SHOWN_NEURONS} that matter most are above.")
        facts |= {"lesions": str(table), "neurons": len(study), "largest": study.head(SHOWN_NEURONS).to_dict("records")}
    if folder is not None:
        pruned, silenced = prune(estimator, rows, y)
        pruned.save(folder)
        count = len(neurons(estimator, LAYERS[3:]))
        lines.append(f"{folder}: a model without {len(silenced)} of {count} neurons of its circuits.")
        facts |= {"pruned": str(folder), "silenced": len(silenced), "circuit_neurons": count}
    return facts


def _explain(estimator: Any, frame: "DataFrame", path: Path, rows: list[int] | None, coverage: float) -> Any:
    from nsac.explain.explanation import explain
    from nsac.explain.subjects import check_rows

    if type(estimator).__name__ != "NSACRegressor":
        return explain(estimator, frame, origins=rows, coverage=coverage)
    chosen = list(range(min(DEFAULT_ROWS, len(frame)))) if rows is None else check_rows(rows, len(frame))
    return explain(
        estimator, tables.features(estimator, frame, path).reset_index(drop=True).iloc[chosen], coverage=coverage
    )
