"""Runs settings of studies and writes their records; a setting that has a record is not run again."""

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Literal

from nsac._torch import single_threaded
from nsac.lab.grid.run import Stopwatch, provenance
from nsac.lab.grid.store import config_key
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import Outcome, Setting, StudyRecord, StudyStore


@dataclass(frozen=True)
class StudyEvent:
    """A setting has ended."""

    kind: Literal["done", "failed"]
    setting: Setting
    record: StudyRecord | None = None
    error: str = ""


def execute_studies(todo: Iterable[Setting], store: StudyStore) -> Iterator[StudyEvent]:
    """Run the settings that have no record, in order; a record is written before its event is reported.

    A setting that fails is reported, and the others still run.
    """
    for setting in todo:
        if setting.name in store:  # two sweeps share this point
            continue
        try:
            record = run_setting(setting)
        except Exception as err:  # one failure must not stop the others
            yield StudyEvent("failed", setting, error=f"{type(err).__name__}: {err}")
        else:
            store.write(record)
            yield StudyEvent("done", setting, record)


def run_setting(setting: Setting) -> StudyRecord:
    """Run one setting on one thread, in its own process if its study requires that."""
    watch = Stopwatch()
    with watch:
        run = _run_in_process if STUDIES[setting.study].apart else _run
        outcome, cpu = run(setting.study, setting.config)
    return StudyRecord(
        study=setting.study,
        seed=setting.seed,
        key=config_key(setting.config),
        config=setting.config,
        **vars(outcome),
        seconds={"cpu": cpu, "wall": watch.wall},
        **provenance(),
    )


def _run(study: str, config: dict[str, Any]) -> tuple[Outcome, float]:
    watch = Stopwatch()
    with single_threaded(), watch:
        outcome = STUDIES[study].run(config)
    return outcome, watch.cpu


def _run_in_process(study: str, config: dict[str, Any]) -> tuple[Outcome, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_run, study, config).result()
        except BrokenProcessPool:
            raise MemoryError("its process died; it may have run out of memory") from None
