import dataclasses

import pytest

from nsac.lab.grid.store import config_key
from nsac.lab.studies import run as running
from support.cli import call

STEPS = 3


@pytest.fixture(scope="module")
def quick():
    """Settings are trained for a few steps and recorded as if they had been trained in full."""
    run_setting = running.run_setting

    def run(setting):
        record = run_setting(dataclasses.replace(setting, config={**setting.config, "steps": STEPS}))
        return dataclasses.replace(record, key=config_key(setting.config), config=setting.config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run_setting", run)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def ablation(folder, quick):
    return call("bench", "ablation", "--seed", 0, "--studies", folder, "--out", folder / "ablation.png")


@pytest.mark.parametrize("text", ["interpolation", "extrapolation", "yes", "no", "0.0143", "0.0237"])
def test_the_ablation_prints_the_papers_numbers_beside_ours(ablation, text):
    assert text in ablation.stdout


def test_the_ablation_draws_its_figure(ablation, folder):
    assert (folder / "ablation.png").read_bytes().startswith(b"\x89PNG")


def test_the_ablation_names_its_replacement(ablation):
    assert "Use `nsac bench study regulariser` and `nsac bench figure regulariser`" in ablation.stderr


def test_frozen_runs_the_study_of_freezing(tmp_path, quick):
    result = call("bench", "frozen", "--studies", tmp_path, "--out", tmp_path / "frozen.png")
    assert "5 of 5 settings have a record" in result.stdout and "bench study freezing" in result.stderr
