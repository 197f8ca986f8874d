"""Progress of a run, and callbacks for `train(..., report=...)`: a progress bar, and a log in JSON lines."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0  # where a bar cannot be drawn


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
    """One bar for one or several runs, with loss, validation score, learning rate and remaining time.

    If the output is not a terminal, a line is printed instead, at most every 10 seconds.
    """

    console: "Console | None" = None  # console to draw on; standard error by default
    description: str = "training"  # text before the bar
    runs: int = 1  # runs that the bar is for, one after the other: the members of an ensemble
    enabled: bool = True  # otherwise nothing is shown
    clock: Callable[[], float] = time.monotonic  # in seconds
    _run = 0  # number of the current run, from 1
    _bar = _task = _printed_on = None
    _start = _last = 0.0

    def __enter__(self) -> "ProgressBar":
        if not self.enabled:
            return self
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = self.console or Console(stderr=True)
        self._start = self._last = self.clock()
        if console.is_terminal:
            columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            note = TextColumn("{task.fields[note]}")
            self._bar = Bar(*columns, note, console=console, get_time=self.clock)
            self._bar.start()
        else:
            self._printed_on = console
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = self._printed_on = None

    def next_run(self) -> "ProgressBar":
        """Begin the next run; returns the bar, which is the callback of the run."""
        self._run += 1
        return self

    def expect(self, runs: int) -> None:
        """Make room for at least so many runs after those that have begun."""
        self.runs = max(self.runs, self._run + runs)

    def finish_run(self) -> None:
        """Show that the run has ended, if its steps were not reported: it was in another process."""
        self._show(1, 1, "")

    def __call__(self, progress: Progress) -> None:
        """Update the bar after a step."""
        note = f"loss {progress.parts['loss']:.3f}  "
        if progress.validation is not None:
            note += f"validation {progress.validation:.3f}  "
        self._show(progress.step, progress.steps, f"{note}lr {progress.learning_rate:.1e}")

    def _show(self, step: int, steps: int, note: str) -> None:
        run, text = max(self._run, 1), self.description
        if self.runs > 1:
            text += f", member {run} of {self.runs}"
        done, total = (run - 1) * steps + step, self.runs * steps
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(text, total=total, note=note)
            self._bar.update(self._task, description=text, completed=done, total=total, note=note)
        elif self._printed_on is not None and (now := self.clock()) - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            left = timedelta(seconds=round((now - self._start) * (total - done) / done))
            line = f"{text}: {done / total:.0%} done, {left} left  {note}".rstrip()
            self._printed_on.print(line, markup=False, highlight=False, soft_wrap=True)


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
