"""Two listeners for `train(..., report=...)`: a live bar for people, a log for programs."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from nsac.training.contract import Progress

if TYPE_CHECKING:
    from rich.console import Console


class ProgressBar:
    """A live bar with loss, validation score, learning rate and time left; silent when not on a terminal.

        with ProgressBar() as report:
            train(model, train_data, validation_data, config, report=report)

    Args:
        console: where to draw; the terminal by default.
        description: in front of the bar.
    """

    def __init__(self, console: "Console | None" = None, description: str = "training"):
        self.console, self.description = console, description
        self._bar = self._task = None

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

    def __exit__(self, *exception) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None

    def __call__(self, progress: Progress) -> None:
        """Show a step."""
        if self._bar is None:
            return
        if self._task is None:
            self._task = self._bar.add_task(self.description, total=progress.steps, note="")
        self._bar.update(self._task, completed=progress.step, note=_note(progress))


def log_jsonl(path: str | Path) -> Callable[[Progress], None]:
    """A listener that adds one JSON object a step to a file.

    The fields are those of `Progress` and `time`, seconds since 1970. Numbers that are not finite become null. A
    resumed run adds to the file: of two lines about one step, the later one counts.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)

    def report(progress: Progress) -> None:
        record = asdict(progress) | {"time": time.time()}
        with open(path, "a", encoding="utf-8") as file:  # opened anew each time: a killed run leaves whole lines
            file.write(json.dumps(_finite(record), allow_nan=False) + "\n")

    return report


def together(*reports: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Several listeners as one."""

    def report(progress: Progress) -> None:
        for each in reports:
            each(progress)

    return report


def _note(progress: Progress) -> str:
    numbers = {"loss": progress.parts["loss"]}
    if progress.validation is not None:
        numbers["validation"] = progress.validation
    return "  ".join(
        [f"{name} {value:.3f}" for name, value in numbers.items()] + [f"rate {progress.learning_rate:.1e}"]
    )


def _finite(value):
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
