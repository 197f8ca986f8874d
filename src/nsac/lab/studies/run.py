"""Settings to records: what is there is not run again."""

import multiprocessing
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Literal

from nsac._torch import single_threaded
from nsac.lab.grid.provenance import provenance
from nsac.lab.grid.run import Watch
from nsac.lab.grid.store import config_key
from nsac.lab.studies import STUDIES
from nsac.lab.studies.base import Outcome, Setting, StudyRecord, StudyStore


@dataclass(frozen=True)
class StudyEvent:
    """A setting came to its end."""

    kind: Literal["done", "failed"]
    setting: Setting
    record: StudyRecord | None = None
    error: str = ""


def execute_studies(todo: Iterable[Setting], store: StudyStore) -> Iterator[StudyEvent]:
    """Do what has no record yet, one after the other; each record is written before it is told.

    A setting that fails is told and the others go on.
    """
    for setting in todo:
        if setting.name in store:  # two sweeps meet here
            continue
        try:
            record = run_setting(setting)
        except Exception as err:  # whatever it is, others may be luckier
            yield StudyEvent("failed", setting, error=f"{type(err).__name__}: {err}")
            continue
        store.write(record)
        yield StudyEvent("done", setting, record)


def run_setting(setting: Setting) -> StudyRecord:
    """One setting, with one thread, in a process of its own if its study asks for that."""
    watch = Watch()
    with watch:
        outcome, cpu = (_apart if STUDIES[setting.study].apart else _here)(setting.study, setting.config)
    return StudyRecord(
        study=setting.study,
        seed=setting.seed,
        key=config_key(setting.config),
        config=setting.config,
        metrics=dict(outcome.metrics),
        series=outcome.series,
        seconds={"cpu": cpu, "wall": watch.wall},
        **provenance(),
    )


def _here(study: str, config: dict[str, Any]) -> tuple[Outcome, float]:
    watch = Watch()
    with single_threaded(), watch:
        outcome = STUDIES[study].run(config)
    return outcome, watch.cpu


def _apart(study: str, config: dict[str, Any]) -> tuple[Outcome, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_here, study, config).result()
        except BrokenProcessPool:
            raise MemoryError("its process died; it may have asked for more memory than there is") from None
