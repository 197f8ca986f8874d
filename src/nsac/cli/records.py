"""The records that commands read: their folders, and which of them are current."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsac.cli.common import note, note_deprecated, stop

if TYPE_CHECKING:
    from nsac.lab.grid.store import Record
    from nsac.lab.studies.base import StudyRecord

GRID_FOLDER = Path("results/bench")
STUDY_FOLDER = Path("results/studies")
SHIFT_FOLDER = Path("results/shifts")
DRIVING_FOLDER = Path("results/driving")

GridRecords = Annotated[Path, typer.Option("--records", help="Folder of the records of `nsac bench run`.")]
StudyRecords = Annotated[Path, typer.Option("--studies", help="Folder of the records of `nsac bench study`.")]
ShiftRecords = Annotated[Path, typer.Option("--shifts", help="Folder of the records of `nsac bench shifts`.")]
DrivingRecords = Annotated[Path, typer.Option("--driving", help="Folder of the records of `nsac drive test`.")]
WrittenRecords = Annotated[
    Path, typer.Option("--out", "--records", help="Folder to write the records to. Runs with a record are skipped.")
]
OldRecords = Annotated[Path | None, typer.Option("--out", hidden=True)]
"""Until now `--out` was the folder of the records also where a command only reads them."""


def choose_folder(records: Path, old: Path | None) -> Path:
    """The folder of the records, also if it was named with the deprecated option."""
    if old is None:
        return records
    note_deprecated("--out FOLDER", "--records FOLDER")
    return old


def grid_records(folder: Path, tasks: Sequence[str] | None = None, protocol: str | None = None) -> list["Record"]:
    """Current records of the benchmark; stale ones are counted in a note.

    Args:
        folder: of the records.
        tasks: names; all by default.
        protocol: `paper` or `sound`; both by default.
    """
    from nsac.lab.grid.config import PROTOCOLS, config_names
    from nsac.lab.grid.store import Store
    from nsac.lab.grid.table import current_records

    for task in tasks or ():
        _check_choice("task", task, config_names())
    if protocol is not None:
        _check_choice("--protocol", protocol, PROTOCOLS)
    records, stale = current_records(Store(folder))
    if stale:
        note(f"Ignored {len(stale)} stale records (the configuration or code has changed).")
    chosen = [r for r in records if (not tasks or r.task in tasks) and protocol in (None, r.protocol)]
    if not chosen:
        stop(f"{folder} has no such records. Run `nsac bench run`, or name another folder with `--records`.")
    return chosen


def study_records(folder: Path) -> list["StudyRecord"]:
    """Current records of the studies."""
    from nsac.lab.studies import STUDIES
    from nsac.lab.studies.base import StudyStore, settings

    return StudyStore(folder).records(dict.fromkeys(setting.name for name in STUDIES for setting in settings(name)))


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        stop(f"`{name}` must be one of {', '.join(known)}. Got {value!r} instead.")
