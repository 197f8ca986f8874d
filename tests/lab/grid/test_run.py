import pytest
import torch

from nsac.lab.grid.config import (
    NEURAL,
    PAPER_TASKS,
    ConfigError,
    check_numbers,
    config_names,
    grid,
    methods_of,
    protocols_of,
    resolve,
    run_config,
)
from nsac.lab.grid.run import PIT_BINS, run, run_once
from nsac.lab.tasks.base import load_task
from nsac.methods import METHODS, TableProblem, fit
from nsac.uncertainty.scores import TABLE
from support.runs import tiny

NUMBERS = {
    "revision": 1, "num_samples": 4, "naive": ["mean"], "train": {"max_steps": 9, "learning_rate": 0.1},
    "sound": {"train": {"max_steps": 8}, "methods": {"nsac": {"train": {"max_steps": 6}}}},
    "methods": {"nsac": {"train": {"max_steps": 7}}, "plain": {"of": "nsac", "arguments": {"objective": "paper"}}},
}  # fmt: skip


def test_every_task_has_its_numbers_and_they_can_be_run():
    assert set(config_names()) == {name for name in config_names() if protocols_of(name)} >= set(PAPER_TASKS)
    for made in grid(config_names(), seeds=[0]):
        assert made.revision >= 1 and ("max_steps" in made.train) == (made.of in NEURAL)
    assert len(grid()) == 5 * 2 * (8 * 6 + 1 + 7 * 3 + 3)


def test_the_naive_rows_are_those_of_the_task(data):
    for name in ("spiral", "boston", "jena"):  # one per family; bearings are tables that take long to read
        assert methods_of(name) == (*NEURAL, *load_task(name, "sound").naive)


@pytest.mark.parametrize(("protocol", "method", "steps"), [
    ("paper", "gmle", 9), ("sound", "gmle", 8), ("paper", "nsac", 7), ("sound", "nsac", 6), ("paper", "plain", 9),
])  # fmt: skip
def test_the_narrower_number_wins(protocol, method, steps):
    assert resolve(NUMBERS, "t", protocol, method, 0).train == {"max_steps": steps, "learning_rate": 0.1}


def test_a_row_may_be_a_variant_and_a_solved_method_does_not_depend_on_training():
    assert resolve(NUMBERS, "t", "paper", "plain", 0).of == "nsac"
    other = {**NUMBERS, "train": {"max_steps": 1}, "num_samples": 9}
    keys = [[resolve(n, "t", "paper", method, 0).key for n in (NUMBERS, other)] for method in ("mean", "gmle")]
    assert keys[0][0] == keys[0][1] and keys[1][0] != keys[1][1]


@pytest.mark.parametrize(("change", "told"), [
    ({"training": {}}, "training"), ({"train": {"steps": 3}}, "steps"), ({"network": {"heads": 1}}, "heads"),
    ({"problem": {"inputs": 1}}, "inputs"), ({"num_samples": 0}, "num_samples"), ({"naive": ["none"]}, "none"),
    ({"sound": {"revision": 2}}, "revision"), ({"methods": {"x": {"of": "nsac", "lr": 1}}}, "lr"),
    ({"methods": {"nsac": {"arguments": {"noise": 1}}}}, "noise"), ({"train": {"max_steps": -1}}, "max_steps"),
])  # fmt: skip
def test_wrong_numbers_are_refused_with_the_place(change, told):
    check_numbers(NUMBERS, "t")
    with pytest.raises(ConfigError, match=f"'t'.*{told}"):
        check_numbers({**NUMBERS, **change}, "t")


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="`task` must be one of 'spiral'"):
        run_config("none", "paper", "nsac", 0)
    with pytest.raises(ValueError, match="`method` must be one of"):
        grid(["boston"], ["none"])
    assert [made.task for made in grid(["boston", "ettm1"], ["persistence"], [0], ["paper"])] == ["ettm1"]


@pytest.fixture(scope="module")
def record():
    return run_once(tiny())


def test_a_record_has_raw_and_calibrated_scores_of_all_and_of_groups(record):
    names = {*TABLE, "crps_calibrated", "nll_calibrated", "coverage_90_calibrated", "width_90_calibrated"}
    assert names <= set(record.metrics)
    assert {f"extrapolation_{name}" for name in names} <= set(record.metrics)
    assert record.rows["test"] == 50 and record.parameters > 1000 and record.training[0]["steps"] == 2
    assert record.seconds["fit_cpu"] > 0 and record.seconds["predict_wall"] > 0 and record.peak_memory > 50


def test_a_run_again_gives_the_same_digits_whatever_the_threads(record):
    torch.set_num_threads(2)
    try:
        again = run_once(tiny())
    finally:
        torch.set_num_threads(1)
    assert again.result == record.result and again.key == record.key
    assert tiny(seed=1).key != record.key


def test_pictures_have_all_entries_in_the_histogram_and_one_spiral_in_the_bands(record):
    for counts in record.pit.values():
        assert len(counts) == PIT_BINS and sum(counts) == 50 * 150 * 2
    assert [len(panel["mean"]) for panel in record.bands] == [150, 150]
    assert set(record.bands[0]) == {"name", "ordered", "at", "y", "mean", "std", "epistemic", "half_90"}


def test_calibration_sets_deviations_right(record):
    off, on = record.metrics["nll"], record.metrics["nll_calibrated"]
    assert on < off  # two steps of training leave deviations that are wrong
    assert abs(record.metrics["coverage_90_calibrated"] - 0.9) < 0.06


@pytest.mark.parametrize("method", ["nsac", "ridge"])
def test_a_table_is_run_by_every_kind_of_method(data, method):
    record = run_once(tiny("boston", "sound", method))
    assert record.unit == "1000 dollars" and "standard split" in record.text.lower()
    assert len(record.bands[0]["y"]) == 51 and sum(record.pit["raw"]) == 51
    assert bool(record.training) == (method == "nsac")


def test_naive_rows_have_the_scores_of_the_task(data):
    task = load_task("boston", "paper")
    method = METHODS["ridge"](task.problem)
    fit(method, task.train, task.validation)
    ours, told = run("boston", "paper", "ridge", 0).metrics, task.score_method(method)
    assert {name: ours[name] for name in told} == pytest.approx(told, rel=1e-4)  # a run computes in single precision


def test_the_clock_alone_is_what_its_row_sees():
    config = run_config("hust", "sound", "clock", 0)
    method, x = config.build(TableProblem(15, 1)), torch.randn(4, 15, generator=torch.Generator().manual_seed(0))
    clock = torch.arange(15) == 14
    seen = method.predict({"x": x}).mean
    assert torch.equal(seen, method.predict({"x": torch.where(clock, x, -x)}).mean)
    assert not torch.isclose(seen, method.predict({"x": torch.where(clock, -x, x)}).mean).any()


def test_forecasts_keep_a_stretch(data):
    record = run_once(tiny("ettm1", "paper", "persistence"))
    assert len(record.bands[0]["y"]) == 150 and "13 of 24 steps ahead" in record.bands[0]["name"]
