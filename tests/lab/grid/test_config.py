import dataclasses
import json

import pytest
import torch

from nsac.lab.grid.config import (
    NEURAL,
    PAPER_TASKS,
    ConfigError,
    check_settings,
    config_names,
    grid,
    methods_of,
    protocols_of,
    resolve,
    run_config,
)
from nsac.lab.tasks.base import load_task
from nsac.methods import TableProblem
from support.runs import tiny

SETTINGS = {
    "revision": 1, "num_samples": 4, "baselines": ["mean"], "train": {"max_steps": 9, "learning_rate": 0.1},
    "sound": {"train": {"max_steps": 8}, "methods": {"nsac": {"train": {"max_steps": 6}}}},
    "methods": {"nsac": {"train": {"max_steps": 7}}, "plain": {"of": "nsac", "arguments": {"objective": "paper"}}},
}  # fmt: skip


def test_every_configuration_file_belongs_to_a_task():
    assert set(config_names()) == {name for name in config_names() if protocols_of(name)} >= set(PAPER_TASKS)


def test_only_neural_methods_have_training_steps():
    for made in grid(config_names(), seeds=[0]):
        assert made.revision >= 1 and ("max_steps" in made.train) == (made.of in NEURAL)


def test_the_default_grid_has_five_seeds_of_the_papers_tasks_in_both_protocols():
    assert len(grid()) == 5 * 2 * (8 * 6 + 1 + 7 * 3 + 3)


@pytest.mark.parametrize("name", ["spiral", "boston", "jena"])  # one per data family; bearings take long to read
def test_the_baselines_of_a_configuration_are_those_of_the_task(data, name):
    assert methods_of(name) == (*NEURAL, *load_task(name, "sound").baselines)


@pytest.mark.parametrize(("protocol", "method", "steps"), [
    ("paper", "gmle", 9), ("sound", "gmle", 8), ("paper", "nsac", 7), ("sound", "nsac", 6), ("paper", "plain", 9),
])  # fmt: skip
def test_the_more_specific_setting_overrides_the_others(protocol, method, steps):
    assert resolve(SETTINGS, "t", protocol, method, 0).train == {"max_steps": steps, "learning_rate": 0.1}


@pytest.mark.parametrize(("method", "revision"), [("nsac", 2), ("gmle", 1), ("mean", 3)])
def test_a_method_may_have_its_own_revision(method, revision):
    own = {**SETTINGS, "methods": {"nsac": {"revision": 2}, "mean": {"revision": 3}}}
    assert resolve(own, "t", "paper", method, 0).revision == revision


def test_a_row_may_be_a_variant_of_a_method():
    assert resolve(SETTINGS, "t", "paper", "plain", 0).of == "nsac"


@pytest.mark.parametrize(("method", "same"), [("mean", True), ("gmle", False)])
def test_only_a_method_solved_in_closed_form_does_not_depend_on_training_settings(method, same):
    other = {**SETTINGS, "train": {"max_steps": 1}, "num_samples": 9}
    keys = {resolve(settings, "t", "paper", method, 0).key for settings in (SETTINGS, other)}
    assert (len(keys) == 1) == same


@pytest.mark.parametrize(("change", "name"), [
    ({"training": {}}, "training"), ({"train": {"steps": 3}}, "steps"), ({"network": {"heads": 1}}, "heads"),
    ({"problem": {"inputs": 1}}, "inputs"), ({"num_samples": 0}, "num_samples"), ({"baselines": ["none"]}, "none"),
    ({"sound": {"revision": 2}}, "revision"), ({"methods": {"x": {"of": "nsac", "lr": 1}}}, "lr"),
    ({"methods": {"nsac": {"arguments": {"noise": 1}}}}, "noise"), ({"train": {"max_steps": -1}}, "max_steps"),
])  # fmt: skip
def test_a_wrong_setting_is_refused_by_name(change, name):
    with pytest.raises(ConfigError, match=f"In the configuration of task 't'.*{name}"):
        check_settings({**SETTINGS, **change}, "t")


@pytest.mark.parametrize("name", ["revision", "baselines", "num_samples", "train"])
def test_a_missing_setting_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=f"`{name}` is required"):
        check_settings({key: value for key, value in SETTINGS.items() if key != name}, "t")


def test_valid_settings_are_accepted():
    check_settings(SETTINGS, "t")


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="`task` must be one of 'spiral'"):
        run_config("none", "paper", "nsac", 0)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="`method` must be one of"):
        grid(["boston"], ["none"])


def test_a_baseline_that_a_task_does_not_have_is_skipped():
    assert [made.task for made in grid(["boston", "ettm1"], ["persistence"], [0], ["paper"])] == ["ettm1"]


def test_the_row_clock_depends_on_the_clock_alone():
    method = run_config("hust", "sound", "clock", 0).build(TableProblem(15, 1))
    x = torch.randn(4, 15, generator=torch.Generator().manual_seed(0))
    clock = torch.arange(15) == 14
    mean = method.predict({"x": x}).mean
    assert torch.equal(mean, method.predict({"x": torch.where(clock, x, -x)}).mean)
    assert not torch.isclose(mean, method.predict({"x": torch.where(clock, -x, x)}).mean).any()


def test_a_configuration_survives_its_plain_values():
    config = tiny()
    assert dataclasses.replace(config) == type(config)(**json.loads(json.dumps(config.to_dict())))


def test_the_key_of_a_configuration_depends_on_the_seed():
    assert tiny(seed=1).key != tiny(seed=0).key
