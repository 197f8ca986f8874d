import functools
import math

import pytest
import torch

from nsac.lab.datasets import load_uci
from nsac.lab.tasks import base
from nsac.lab.tasks.base import SPLITS, TASKS, TaskBatch, baseline_scores, lacking, load_task, task, tasks_of
from nsac.methods import METHODS
from nsac.uncertainty import Prediction
from support.splits import all_rows, perfect

PAPER_TASKS = ("spiral", "boston", "kin8nm", "ettm1", "jena", "xjtu", "pronostia", "hust")
BOTH = [(name, protocol) for name in PAPER_TASKS for protocol in ("paper", "sound")]


cached_task = functools.cache(load_task)


@pytest.fixture
def built(request, name, protocol):
    if name != "spiral":
        request.getfixturevalue("data")
    return cached_task(name, protocol, seed=1)


def test_every_task_of_the_paper_has_both_protocols():
    assert set(BOTH) <= set(TASKS)


def test_tasks_are_found_by_their_source():
    assert tasks_of("ettm1") == [("ettm1", "paper"), ("ettm1", "sound"), ("ettm1-24", "sound")]


def test_a_task_cannot_be_registered_twice():
    with pytest.raises(ValueError, match="`name` and `protocol` must be unique. Got 'spiral', 'paper' twice"):
        task("spiral", "paper")(lambda seed: load_task("spiral", "paper", seed))


@pytest.mark.parametrize(("name", "protocol"), BOTH)
def test_a_task_has_a_text_of_one_paragraph(built):
    assert 200 < len(built.text) < 2000 and "\n" not in built.text and "{" not in built.text


@pytest.mark.parametrize(("name", "protocol"), BOTH)
def test_every_split_fits_the_problem(built):
    for split in SPLITS:
        data = built.split(split)
        rows = torch.arange(len(data))[:: max(1, len(data) // 20)]
        batch, (shift, scale) = data.batch(rows), data.unit(rows)
        assert torch.isfinite(batch["x"]).all() and torch.isfinite(batch["y"]).all()
        assert batch["y"].shape[0] == len(rows) and batch["y"].shape[-1] == built.problem.output_dim
        assert (torch.broadcast_to(scale, batch["y"].shape) > 0).all() and torch.isfinite(shift).all()


@pytest.mark.parametrize(("name", "protocol"), BOTH)
def test_the_baselines_can_handle_the_problem(built):
    for method in built.baselines:
        assert built.problem.kind in METHODS[method].kinds


def test_a_perfect_prediction_has_no_error_in_the_unit_of_the_task(data):
    scores = load_task("ettm1", "paper").score(perfect)
    assert scores["mse"] == pytest.approx(0, abs=1e-20) and scores["coverage_90"] == 1


@pytest.mark.parametrize(("name", "protocol"), [("boston", "paper"), ("boston", "sound"), ("ettm1", "sound")])
def test_a_prediction_is_restored_with_its_standard_deviation(data, name, protocol):
    built = load_task(name, protocol)
    batch = next(built.batches("test", batch_size=5))
    y = batch.inputs["y"]
    raw = Prediction.gaussian(y + 0.5, torch.full_like(y, 0.25))
    restored = batch.restore(raw)
    torch.testing.assert_close(restored.std, batch.scale.abs() * raw.std)
    torch.testing.assert_close(restored.mean - batch.y, (0.5 * batch.scale).expand(y.shape))


def test_a_scale_of_zero_keeps_the_standard_deviation_positive():
    batch = TaskBatch({"y": torch.ones(3, 1)}, torch.tensor(2.0), torch.tensor(0.0))
    restored = batch.restore(Prediction.gaussian(torch.ones(3, 1), torch.ones(3, 1)))
    assert (restored.mean == 2).all() and (restored.std > 0).all()


def test_batches_are_all_rows_in_order():
    built = load_task("spiral", "paper")
    batches = list(built.batches("test", batch_size=20))
    assert [len(batch.y) for batch in batches] == [20, 20, 10]
    assert torch.equal(torch.cat([batch.inputs["x"] for batch in batches]), all_rows(built.test)["x"])


def test_the_nll_is_in_the_unit_of_the_task(data):
    built = load_task("boston", "sound")
    table = load_uci("boston")
    std = built.test.scale.item()  # standard deviation of the training targets, in 1000 dollars
    z = (table.y[table.splits[0][1]] - built.test.shift.item()) / std
    scores = built.score(lambda batch: Prediction.gaussian(0 * batch["y"], torch.ones_like(batch["y"])))
    assert scores["nll"] == pytest.approx((0.5 * math.log(2 * math.pi) + math.log(std) + z**2 / 2).mean())
    assert scores["mse"] == pytest.approx((std * z) @ (std * z) / len(z)) and 8 < std < 10


@pytest.mark.parametrize("split", SPLITS)
def test_groups_are_scored_separately_except_in_the_training_split(split):
    scores = load_task("spiral", "paper").score(perfect, split)
    assert scores["mse"] == 0 and ("interpolation_mse" in scores) == (split != "train")


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="`split` must be one of .* Got 'part'"):
        load_task("spiral", "paper").score(perfect, "part")


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="`seed` must be a whole number of at least 0. Got -1"):
        load_task("spiral", seed=-1)


@pytest.mark.parametrize(
    ("name", "protocol"), [("boston", "paper"), ("boston", "sound"), ("xjtu", "paper"), ("xjtu", "sound")]
)
def test_the_splits_of_a_task_share_no_row(data, name, protocol):
    built = load_task(name, protocol, seed=3)
    rows = [tuple(row) for split in SPLITS for row in all_rows(built.split(split))["x"].tolist()]
    assert len(rows) == len(set(rows))


def test_every_task_of_a_source_is_scored():
    scored = [(row["task"], row["protocol"], row["method"]) for row in baseline_scores("spiral")]
    events = [("spiral-events", "sound", method) for method in ("mean", "persistence", "extrapolation")]
    assert scored == [("spiral", "paper", "mean"), ("spiral", "sound", "mean"), *events]


def test_a_row_has_the_unit_and_the_text_of_its_task():
    row = baseline_scores("spiral")[0]
    task = load_task("spiral", "paper")
    assert (row["unit"], row["text"]) == (task.unit, task.text)


@pytest.fixture
def only_hust(monkeypatch):
    monkeypatch.setattr(base, "present", lambda source: source == "hust")


def test_a_task_that_lacks_another_source_is_listed_with_it(only_hust):
    assert lacking("hust") == {("hust", "paper"): ["xjtu"], ("hust", "sound"): ["xjtu"]}


def test_a_task_that_lacks_another_source_is_not_scored(only_hust):
    assert baseline_scores("hust") == []
