"""A live display of a benchmark: running and finished runs, and the estimated time left."""

import time
from collections import defaultdict
from collections.abc import Iterable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.executor import AbstractExecutor, Event
from nsac.lab.grid.store import Record

DEFAULT_RUN_SECONDS = 60.0
"""Estimated duration of a run before any run has finished."""


class Board:
    """Shows the progress of a benchmark; without a terminal, it prints one line per finished run.

    It is called with each event of `todo`, the runs that have no record yet. The time left is estimated from the number
    of workers of the executor and from the durations of earlier runs, whose records are `known`.
    """

    def __init__(
        self, console: Console, todo: Iterable[RunConfig], executor: AbstractExecutor, known: Iterable[Record] = ()
    ):
        self.console, self.executor = console, executor
        self.todo = {config.name: config for config in todo}
        self.total, self.done, self.failed = len(self.todo), 0, 0
        self.running: dict[str, float] = {}
        self._durations: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for record in known:
            self._remember(record)
        self._live = Live(self, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> "Board":
        if self.console.is_terminal and self.total:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Update the display."""
        name = event.config.name
        if event.kind == "start":
            self.running[name] = time.monotonic()
            return
        self.running.pop(name, None)
        config = self.todo.pop(name, event.config)
        title = f"{config.task} {config.protocol} {config.method} {config.seed}"
        if event.record is not None:
            self.done += 1
            self._remember(event.record)
            crps, seconds = event.record.metrics.get("crps"), event.record.seconds.get("total_wall", 0.0)
            message = f"{title}: CRPS {'not finite' if crps is None else f'{crps:.4g}'}, {seconds:.0f} s"
        else:
            self.failed += 1
            message = f"{title}: failed. {event.error}"
        self.console.print(f"{self.done + self.failed}/{self.total} {message}", markup=False, highlight=False)

    def seconds_left(self) -> float:
        """Estimated time until all runs have finished."""
        now = time.monotonic()
        each = [max(0.0, self.expected(c) - (now - self.running.get(c.name, now))) for c in self.todo.values()]
        return sum(each) / max(1, min(self.executor.workers, len(each)))

    def expected(self, config: RunConfig) -> float:
        """Estimated seconds of a run: the mean over other seeds of the run, else over its method, else over all."""
        for key in _keys(config):
            if self._durations[key]:
                return sum(self._durations[key]) / len(self._durations[key])
        return DEFAULT_RUN_SECONDS

    def __rich__(self) -> Group:
        failed = f", {self.failed} failed" if self.failed else ""
        head = f"{self.done} of {self.total} runs done{failed}, about {_duration(self.seconds_left())} left"
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, start in self.running.items():
            if (config := self.todo.get(name)) is not None:
                elapsed = f"{_duration(now - start)} of about {_duration(self.expected(config))}"
                table.add_row(config.task, config.protocol, config.method, f"seed {config.seed}", elapsed)
        bar = ProgressBar(total=max(1, self.total), completed=self.done + self.failed, width=40)
        return Group(Text(head), bar, table)

    def _remember(self, record: Record) -> None:
        if (seconds := record.seconds.get("total_wall")) is not None:
            for key in _keys(record):
                self._durations[key].append(seconds)


def _keys(run: RunConfig | Record) -> list[tuple[str, ...]]:
    return [(run.task, run.protocol, run.method), (run.method,), ()]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
