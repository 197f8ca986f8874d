"""The figures of the report, by name: those of the grid and those of the studies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from matplotlib import rc_context
from matplotlib.figure import Figure

from nsac.lab.grid.config import PROTOCOLS
from nsac.lab.grid.store import Record
from nsac.lab.report.figures import METHODS, FirstRecords, bearings_figure, forecasts_figure, spirals_figure
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import StudyRecord, found
from nsac.uncertainty.style import STYLE


@dataclass(frozen=True)
class Picture:
    """A figure of the report."""

    name: str
    """file name without the extension; begins with the group"""
    group: str
    place: str
    """figure of the paper"""
    caption: str
    draw: Callable[[], Figure]

    def png(self) -> bytes:
        """Content of the PNG file, the same on every call."""
        out = BytesIO()
        with rc_context(STYLE):
            self.draw().savefig(out, format="png", metadata={"Software": None})
        return out.getvalue()


@dataclass(frozen=True)
class GridFigure:
    """A figure that is drawn from records of the grid, once per protocol."""

    place: str
    tasks: tuple[str, ...]
    caption: str
    draw: Callable[[FirstRecords], Figure]


GRID_FIGURES = {
    "spiral": GridFigure(
        "Figure 2",
        ("spiral",),
        "One test spiral and the prediction of every method: observed in its first half, predicted at all times.",
        spirals_figure,
    ),
    "forecasts": GridFigure(
        "Figure 4",
        ("ettm1", "jena"),
        "Forecasts at half the horizon, over an interval of the test split; the last target where there are several.",
        forecasts_figure,
    ),
    "bearings": GridFigure(
        "Figure 5",
        ("xjtu", "pronostia", "hust"),
        "Degradation over the share of life, which is not an input under the sound protocol. Test runs are side by "
        "side; rows are sorted where the test split is a random choice of windows.",
        bearings_figure,
    ),
}
"""Figures of the grid by group."""


def pictures(records: Sequence[Record], studies: Sequence[StudyRecord] = ()) -> list[Picture]:
    """All figures that have a record, in the order of the paper."""
    made = []
    for group, figure in GRID_FIGURES.items():
        for protocol in PROTOCOLS:
            first = _first_records(records, figure.tasks, protocol)
            if first:
                caption = f"{figure.caption} {protocol.capitalize()} protocol, first seed."
                made.append(Picture(f"{group}-{protocol}", group, figure.place, caption, partial(figure.draw, first)))
    for name, study in STUDIES.items():
        some = found(name, studies)
        if some and study.draw is not None:
            made.append(Picture(name, name, study.place, study.caption, partial(study.draw, some)))
    return sorted(made, key=lambda picture: picture.place.partition("Figure ")[2])


def picture_groups() -> list[str]:
    """Names of all groups of figures."""
    return [*GRID_FIGURES, *(name for name, study in STUDIES.items() if study.draw is not None)]


def _first_records(records: Sequence[Record], tasks: Sequence[str], protocol: str) -> FirstRecords:
    chosen: FirstRecords = {}
    for record in sorted(records, key=lambda r: r.seed):
        if record.task in tasks and record.protocol == protocol and record.method in METHODS:
            chosen.setdefault((record.task, record.method), record)
    return {(task, method): chosen[task, method] for task in tasks for method in METHODS if (task, method) in chosen}
