"""Where runs happen: here, in processes of this machine, or on a Ray cluster. One place writes the records."""

import contextlib
import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from nsac._checks import check_int
from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.run import run_once
from nsac.lab.grid.store import Record, Store

TRIES = 4
"""How often a run is begun, if what it runs in dies."""


@dataclass(frozen=True)
class Event:
    """Something happened to a run."""

    kind: Literal["start", "done", "failed"]
    config: RunConfig
    record: Record | None = None
    error: str = ""


class AbstractExecutor(ABC):
    """A place where runs happen. Which one it is does not show in a result."""

    workers: int = 1
    """runs under way at a time"""

    @abstractmethod
    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """Do all runs; they are taken from `configs` when there is room, so the iterable may leave out what is done.

        A run that fails is told and the others go on; one whose process dies is begun again, `TRIES` times in all.
        """


class InProcess(AbstractExecutor):
    """One after the other, here."""

    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """In order."""
        for config in configs:
            yield Event("start", config)
            yield _told(config, perform(config.to_dict()))


class Processes(AbstractExecutor):
    """Processes of this machine, each with one thread.

    Args:
        workers: how many; by default one per core.
    """

    def __init__(self, workers: int | None = None):
        check_int("workers", workers := workers or os.cpu_count() or 1)
        self.workers = workers

    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """As processes become free."""
        todo, again, tries = iter(configs), deque[RunConfig](), Counter[str]()
        free, busy = [_Worker() for _ in range(self.workers)], dict[Connection, tuple[_Worker, RunConfig]]()
        try:
            while True:
                while free and (config := again.popleft() if again else next(todo, None)):
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
                        answer = worker.connection.recv()
                    except (EOFError, OSError):  # it died
                        worker.end()
                        free.append(_Worker())
                        if tries[config.name] < TRIES:
                            again.append(config)
                        else:
                            yield Event("failed", config, error=f"its process died {TRIES} times")
                        continue
                    free.append(worker)
                    yield _told(config, answer)
        finally:
            for worker in (*free, *(worker for worker, _ in busy.values())):
                worker.end()


class RayCluster(AbstractExecutor):
    """Nodes of a Ray cluster, each with this library and the data; a run takes one core.

    Args:
        address: of the cluster's head; by default the one RAY_ADDRESS names, or a cluster made of this machine.
    """

    def __init__(self, address: str | None = None):
        self.address = address

    def events(self, configs: Iterable[RunConfig]) -> Iterator[Event]:
        """As cores become free; Ray begins a run again on another node if its own is gone."""
        import ray
        from ray.exceptions import RayError

        mine = not ray.is_initialized()
        if mine:
            ray.init(address=self.address, log_to_driver=False, include_dashboard=False if not self.address else None)
        remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(perform)
        todo, flight = iter(configs), dict[Any, RunConfig]()
        try:
            while True:
                self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
                while len(flight) < self.workers + 1 and (config := next(todo, None)):  # one waits, so no core does
                    flight[remote.remote(config.to_dict())] = config
                    yield Event("start", config)
                if not flight:
                    return
                for ready in ray.wait(list(flight), timeout=1.0)[0]:
                    config = flight.pop(ready)
                    try:
                        answer = ray.get(ready)
                    except RayError as err:
                        answer = {"error": f"{type(err).__name__} {TRIES} times: {str(err).splitlines()[0]}"}
                    yield _told(config, answer)
        finally:
            if mine:
                ray.shutdown()


EXECUTORS: dict[str, Callable[..., AbstractExecutor]] = {
    "here": InProcess,
    "processes": Processes,
    "ray": RayCluster,
}


def execute(configs: Iterable[RunConfig], store: Store, executor: AbstractExecutor) -> Iterator[Event]:
    """Do what has no record yet, and write each record as soon as it is there, before it is told."""
    for event in executor.events(config for config in configs if config.name not in store):
        if event.record is not None:
            store.write(event.record)
        yield event


def perform(config: dict[str, Any]) -> dict[str, Any]:
    """A run as plain values: its record, or what went wrong."""
    try:
        return {"record": asdict(run_once(RunConfig(**config)))}
    except Exception as err:  # whatever it is, other runs may be luckier
        return {"error": f"{type(err).__name__}: {err}"}


def _told(config: RunConfig, answer: dict[str, Any]) -> Event:
    if "error" in answer:
        return Event("failed", config, error=answer["error"])
    return Event("done", config, Record(**answer["record"]))


class _Worker:
    """A process that answers configs until its pipe is closed."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")  # a fork would take locks and threads of torch with it
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def give(self, config: RunConfig) -> None:
        with contextlib.suppress(OSError):  # it died; so says the next `recv`
            self.connection.send(config.to_dict())

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _serve(connection: Connection) -> None:
    def follow() -> None:  # a killed parent cannot say so
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    try:
        while True:
            connection.send(perform(connection.recv()))
    except (EOFError, OSError, KeyboardInterrupt):
        return
