"""Progress of a run, and callbacks for `train(..., report=...)`: a progress bar, and a log in JSON lines."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Progress:
    """Progress of a run after a step."""

    step: int  # steps done
    steps: int  # total number of steps, without early stopping
    parts: dict[str, float]  # parts of the loss at this step, and "loss" itself
    validation: float | None  # latest validation score, lower is better; None before the first
    learning_rate: float  # of this step


Report = Callable[[Progress], None]


@dataclass
class ProgressBar:
    """A progress bar with loss, validation score, learning rate and remaining time; silent if not on a terminal."""

    console: "Console | None" = None  # console to draw on; the terminal by default
    description: str = "training"  # text before the bar
    _bar = _task = None

    def __enter__(self) -> "ProgressBar":
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = self.console or Console()
        if console.is_terminal:
            columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, TextColumn("{task.fields[note]}"), console=console)
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None

    def __call__(self, progress: Progress) -> None:
        """Update the bar after a step."""
        if self._bar is None:
            return
        if self._task is None:
            self._task = self._bar.add_task(self.description, total=progress.steps, note="")
        note = f"loss {progress.parts['loss']:.3f}  "
        if progress.validation is not None:
            note += f"validation {progress.validation:.3f}  "
        self._bar.update(self._task, completed=progress.step, note=f"{note}lr {progress.learning_rate:.1e}")


def log_jsonl(path: str | Path) -> Report:
    """A callback that appends one JSON object per step to a file: `Progress`, and `time` in seconds since 1970.

    Numbers that are not finite become null. If a step has two lines, because the run resumed, the later one is valid.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)

    def report(progress: Progress) -> None:
        text = json.dumps(asdict(progress) | {"time": time.time()})
        finite = json.loads(text, parse_constant=lambda name: None)
        with open(path, "a", encoding="utf-8") as file:  # reopened for every step: a killed run leaves complete lines
            file.write(json.dumps(finite) + "\n")

    return report


def together(*reports: Report) -> Report:
    """Several callbacks as one."""

    def report(progress: Progress) -> None:
        for each in reports:
            each(progress)

    return report
