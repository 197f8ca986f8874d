"""Executors of runs: this process, processes of this machine, or a Ray cluster. Only `execute` writes records."""

import contextlib
import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Literal, NamedTuple

from nsac._checks import check_int
from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.run import run_once
from nsac.lab.grid.store import Record, Store

TRIES = 4  # starts of a run before it counts as failed, if its process or node dies


class Event(NamedTuple):
    """A run started, finished or failed."""

    kind: Literal["start", "done", "failed"]
    config: RunConfig
    record: Record | None = None
    error: str = ""


class AbstractExecutor(ABC):
    """Executes runs. The results do not depend on which executor it is."""

    workers: int = 1  # number of simultaneous runs

    @abstractmethod
    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """Execute all runs; they are taken from `configs` lazily, so the iterable can skip those finished meanwhile.

        A run that fails is reported and the others continue; one whose process dies is restarted, up to `TRIES` starts.
        """


class InProcess(AbstractExecutor):
    """One run after the other in this process."""

    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """Events in the order of `configs`."""
        for config in configs:
            yield Event("start", config)
            yield perform(config)


class Processes(AbstractExecutor):
    """`workers` processes of this machine, each with one thread; by default one per core."""

    def __init__(self, workers: int | None = None):
        check_int("workers", workers := workers or os.cpu_count() or 1)
        self.workers = workers

    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """Events as processes become free."""
        todo, retries, tries = iter(configs), deque[RunConfig](), Counter[str]()
        free, busy = [_Worker() for _ in range(self.workers)], dict[Connection, tuple[_Worker, RunConfig]]()
        try:
            while True:
                while free and (config := retries.popleft() if retries else next(todo, None)):
                    tries[config.name] += 1
                    worker = free.pop()
                    busy[worker.connection] = worker, config
                    worker.give(config)
                    if tries[config.name] == 1:
                        yield Event("start", config)
                if not busy:
                    return
                for connection in wait(list(busy)):
                    worker, config = busy.pop(connection)  # pyright: ignore[reportArgumentType]
                    try:
                        event = worker.connection.recv()
                    except (EOFError, OSError):  # the process died
                        worker.end()
                        free.append(_Worker())
                        if tries[config.name] < TRIES:
                            retries.append(config)
                        else:
                            yield Event("failed", config, error=f"its process died {TRIES} times")
                        continue
                    free.append(worker)
                    yield event
        finally:
            for worker in (*free, *(worker for worker, _ in busy.values())):
                worker.end()


class RayCluster(AbstractExecutor):
    """Nodes of a Ray cluster, each with this library and the data; a run takes one core.

    `address` is that of the cluster's head; by default the one in RAY_ADDRESS, or a local cluster.
    """

    def __init__(self, address: str | None = None):
        self.address = address

    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """Events as cores become free; Ray restarts a run on another node if its node is lost."""
        import ray
        from ray.exceptions import RayError

        owned = not ray.is_initialized()
        if owned:
            ray.init(address=self.address, log_to_driver=False, include_dashboard=False if not self.address else None)
        remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(perform)
        todo, flight = iter(configs), dict[Any, RunConfig]()
        try:
            while True:
                self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
                # One more than there are cores, so that no core is idle.
                while len(flight) < self.workers + 1 and (config := next(todo, None)):
                    flight[remote.remote(config)] = config
                    yield Event("start", config)
                if not flight:
                    return
                for ready in ray.wait(list(flight), timeout=1.0)[0]:
                    config = flight.pop(ready)
                    try:
                        yield ray.get(ready)
                    except RayError as err:
                        error = f"{type(err).__name__} {TRIES} times: {str(err).splitlines()[0]}"
                        yield Event("failed", config, error=error)
        finally:
            if owned:
                ray.shutdown()


EXECUTORS: dict[str, Callable[..., AbstractExecutor]] = {"here": InProcess, "processes": Processes, "ray": RayCluster}


def execute(configs: Iterable[RunConfig], store: Store, executor: AbstractExecutor) -> Iterator[Event]:
    """Execute the runs that have no record yet; each record is written before its event is yielded."""
    for event in executor.events(config for config in configs if config.name not in store):
        if event.record is not None:
            store.write(event.record)
        yield event


def perform(config: RunConfig) -> Event:
    """Execute a run: its record, or an error message."""
    try:
        return Event("done", config, run_once(config))
    except Exception as err:  # a failing run must not stop the others
        return Event("failed", config, error=f"{type(err).__name__}: {err}")


class _Worker:
    """A process that executes the configurations it receives, until its pipe is closed."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")  # a fork would inherit locks and threads of torch
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def give(self, config: RunConfig) -> None:
        with contextlib.suppress(OSError):  # it died; the next `recv` raises
            self.connection.send(config)

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _serve(connection: Connection) -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            connection.send(perform(connection.recv()))


def _exit_with_parent() -> None:  # a killed parent cannot send a message
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
