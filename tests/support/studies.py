"""Settings of studies that take a second or so."""

import dataclasses
from functools import cache
from unittest.mock import patch

from nsac._torch import single_threaded
from nsac.lab.studies import STUDIES, demo
from nsac.lab.studies.base import Outcome, Setting, settings
from nsac.lab.studies.regulariser import SpiralRun, run_spirals

NUMBERS = {
    "revision": 1, "seeds": [0, 1], "fixed": {"a": 1, "b": 2},
    "sweep": [{"name": "a", "a": [1, 3]}, {"name": "b", "b": [2, 4], "c": [5]}],
}  # fmt: skip
"""Content of the file of a study that does not exist."""

TINY = {
    "regulariser": {"steps": 3},
    "freezing": {"steps": 1, "updates": 3},
    "cost": {"length": 40, "passes": 2, "num_heads": 2, "d_model": 8},
    "hyperparameters": {"steps": 2, "draws": 1, "ood_std": 0.0},
    "lengths": {"length": 50, "passes": 2},
}
"""Changes of the configuration of each study."""


def tiny_setting(study: str, number: int = 0) -> Setting:
    """A setting of the study's file, made small."""
    setting = settings(study)[number]
    return dataclasses.replace(setting, config={**setting.config, **TINY[study]})


@cache
def tiny_results(study: str) -> list[tuple[Setting, Outcome]]:
    """The first two settings of a study, made small, and their results."""
    some = [tiny_setting(study, 0), tiny_setting(study, 1)]
    with single_threaded():
        return [(setting, STUDIES[study].run(setting.config)) for setting in some]


@cache
def tiny_spiral_run() -> SpiralRun:
    """Spirals predicted after one training step."""
    return run_spirals(steps=1)


@cache
def tiny_demo() -> demo.Demo:
    """The demonstration after two training steps, with few spirals."""
    with patch.multiple(demo, TRAINING_SPIRALS=64, VALIDATION_SPIRALS=16, TEST_SPIRALS=8):
        return demo.run_demo(steps=2)
