from dataclasses import replace

import pytest
import torch

from nsac.lab.datasets import make_spirals
from nsac.lab.tasks import spirals
from nsac.lab.tasks.base import load_task
from nsac.methods import METHODS, fit
from support.splits import all_rows, assert_only_the_test_split_differs


def fitted_mean(task):
    method = METHODS["mean"](task.problem)
    fit(method, task.train, task.validation)
    return method


@pytest.fixture(params=["paper", "sound"])
def protocol_and_scores(request):
    """The scores of the mean of the training spirals."""
    task = load_task("spiral", request.param)
    return request.param, task.score_method(fitted_mean(task))


def test_the_mean_spiral_is_accurate_in_the_paper_protocol_only(protocol_and_scores):
    protocol, scores = protocol_and_scores
    if protocol == "paper":
        assert scores["interpolation_mse"] < 2e-4 and scores["extrapolation_mse"] < 1.7e-3
    else:
        assert scores["interpolation_mse"] > 0.02 and scores["extrapolation_mse"] > 0.1


@pytest.fixture
def task_and_changed(generator):
    """A task, and the same with other spirals in the test split."""
    data = make_spirals(generator=generator)
    other = make_spirals(generator=generator)
    mixed = {}
    for name in ("x", "times", "y", "truth"):
        mixed[name] = torch.cat([getattr(data, name)[:250], getattr(other, name)[250:]])
    return spirals.build("sound", 0, data), spirals.build("sound", 0, replace(data, **mixed))


def test_spirals_of_the_test_split_change_no_training_row(task_and_changed):
    task, changed = task_and_changed
    assert_only_the_test_split_differs(task, changed)
    for name in ("times", "y"):
        assert (all_rows(task.test)[name] != all_rows(changed.test)[name]).any()


def test_spirals_of_the_test_split_change_no_fitted_baseline(task_and_changed):
    batch = all_rows(task_and_changed[0].test)
    one, two = (fitted_mean(task).predict(batch).mean for task in task_and_changed)
    assert torch.equal(one, two)


def test_training_rows_have_the_queries_of_the_first_200_spirals_each_once(generator):
    data = make_spirals(generator=generator)
    batch = all_rows(spirals.build("sound", 0, data).train)
    spiral = torch.arange(200).repeat_interleave(10)
    assert torch.equal(batch["x"], data.x[spiral]) and torch.equal(batch["times"], data.times[spiral])
    place = torch.searchsorted(data.query_times, batch["query_times"])
    assert torch.equal(batch["y"], data.y[spiral[:, None], place])
    assert torch.equal(place.view(200, 150).sort(-1).values, torch.arange(150).expand(200, -1))


def test_every_spiral_has_its_own_order_of_queries(seed):
    order = all_rows(load_task("spiral", "sound", seed).train)["query_times"].view(200, 150)
    assert len(set(map(tuple, order.tolist()))) == 200


def test_the_order_of_queries_is_independent_of_the_random_numbers_of_the_spirals(seed):
    query_times = all_rows(load_task("spiral", "sound", seed).train)["query_times"]
    order = query_times.view(200, 150).argsort(-1).argsort(-1)
    reused = torch.rand(200, 150, generator=torch.Generator().manual_seed(seed)).argsort(-1)
    assert (order == reused).double().mean() < 0.02  # 1 in 150 by chance


def test_spirals_as_events_have_the_observations_and_targets_of_the_task():
    series, events = spirals.build("sound", 3), spirals.build_events(3)
    for split in ("validation", "test"):
        rows = torch.arange(len(series.split(split)))
        one, two = series.split(split).batch(rows), events.split(split).batch(rows)
        assert torch.equal(two["x"].unflatten(1, (-1, 2)), one["x"].float())
        assert torch.equal(two["y"].squeeze(-1).unflatten(1, (-1, 2)), one["y"].float())
        torch.testing.assert_close(two["times"][:, ::2] + spirals.ORIGIN, one["times"].double())
        torch.testing.assert_close(two["query_times"][:, 1::2] + spirals.ORIGIN, one["query_times"].double())
        assert (two["times"] <= 0).all() and not two["mask"].any()


def test_training_asks_for_some_targets_of_a_spiral():
    task = spirals.build_events(0)
    batch = task.train.batch(torch.arange(16))
    assert batch["y"].shape == (16, spirals.EVENT_QUERIES, 1) and not batch["y"].isnan().any()
    assert batch["query_channel"].unique().tolist() == [0, 1]
