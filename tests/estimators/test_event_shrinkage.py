import numpy as np
import pytest
import torch

from nsac.estimators.event_shrinkage import shrink_changes
from nsac.methods import METHODS, EventsProblem
from nsac.training import ChannelScale, EventsData, Queries, cut_origins


def walks(rows: int, seed: int = 0) -> EventsData:
    """Random walks: the last value is the best forecast."""
    rng = np.random.default_rng(seed)
    series, times = np.repeat(np.arange(rows), 20), np.tile(np.arange(20.0), rows)
    values = rng.normal(size=(rows, 20)).cumsum(1).ravel()
    start, stop, first, last = cut_origins(series, times, np.arange(rows), np.full(rows, 14.0), 15.0, 5.0)
    columns = torch.tensor(values), torch.zeros(len(values), dtype=torch.int64), torch.tensor(times)
    queries = Queries(columns[1], columns[2], columns[0], first, last)
    scale = ChannelScale.fit(columns[0], columns[1], 1)
    return EventsData(*columns, torch.full((rows,), 14.0).double(), start, stop, queries, scale, dtype=torch.float64)


@pytest.fixture
def member():
    return METHODS["nsac"](EventsProblem(channels=1, time_scale=15.0, trees=True), seed=0)


def errors(member, data: EventsData) -> float:
    batch = data.batch(torch.arange(len(data)))
    return (member.predict(batch, 5).mean - batch["y"]).square().mean().item()


def test_a_network_that_is_no_help_is_drawn_to_its_anchor(member):
    data = walks(200)
    before = errors(member, data)
    factor = shrink_changes([member], data)
    assert 0 <= factor < 0.5
    assert errors(member, data) < before


def test_the_factor_is_the_best_one(member):
    data = walks(200)
    shrink_changes([member], data)
    again = shrink_changes([member], data)
    assert again == pytest.approx(1, abs=1e-3)


def test_methods_without_stochastic_attention_are_left_alone():
    member = METHODS["gmle"](EventsProblem(channels=1, time_scale=15.0), seed=0)
    before = {name: value.clone() for name, value in member.state_dict().items()}
    assert shrink_changes([member], walks(20)) == 1
    assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())
