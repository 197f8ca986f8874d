"""`nsac explain`: a page that shows what predictions are made of."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsac.cli import tables
from nsac.cli.common import AsJson, check_out, note, one_line_errors, parse_numbers, show, status
from nsac.cli.model import NOTHING_WRITTEN, load_model, read_for
from nsac.cli.options import Coverage, Data, DayFirst, Encoding, Model, TimeFormat, Verbose
from nsac.cli.reading import TableError

if TYPE_CHECKING:
    from pandas import DataFrame

DEFAULT_ROWS = 20  # rows of a table that are explained if none are named
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
    coverage: Coverage = 0.9,
    time_format: TimeFormat = None,
    dayfirst: DayFirst = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Explain predictions: contributions of each value, attention and circuits, what-if; an interactive HTML page."""
    with one_line_errors(verbose, lost=NOTHING_WRITTEN):
        if out is None:
            raise TableError("There is no output file. Pass `--out page.html`.")
        if not 0 < coverage < 1:
            raise TableError(f"`--coverage` must be strictly between 0 and 1. Got {coverage} instead.")
        check_out(out, data, model)
        chosen = None if rows is None else parse_numbers(rows, "--rows", "row")
        estimator, targets = load_model(model)
        frame = read_for(estimator, data, (), encoding, time_format, dayfirst)
        with status("explaining"):
            explanation = _explain(estimator, frame, data, chosen, coverage)
            explanation.save(out)
    size, names = out.stat().st_size, explanation.rows
    if size > MAX_PAGE_BYTES:
        note(f"{out} has {size / 1e6:.1f} MB. Explain fewer rows for a smaller page.")
    shares = {name: round(float(share.mean()), 4) for name, share in explanation.shares.items()}
    facts = {"page": str(out), "bytes": size, "rows": names, "features": explanation.features, "shares": shares}
    listed = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    show(as_json, facts, f"{out}: {len(names)} rows, {size / 1e6:.1f} MB. Shares of the mean: {listed}.")


def _explain(estimator: Any, frame: "DataFrame", path: Path, rows: list[int] | None, coverage: float) -> Any:
    from nsac.explain.explanation import explain
    from nsac.explain.subjects import check_rows

    if type(estimator).__name__ != "NSACRegressor":
        return explain(estimator, frame, origins=rows, coverage=coverage)
    chosen = list(range(min(DEFAULT_ROWS, len(frame)))) if rows is None else check_rows(rows, len(frame))
    return explain(
        estimator, tables.features(estimator, frame, path).reset_index(drop=True).iloc[chosen], coverage=coverage
    )
