from dataclasses import replace

import numpy as np
import pytest
import torch

from nsac.lab.tasks import physionet
from nsac.lab.tasks.base import SPLITS, load_task
from nsac.methods import METHODS, fit
from support.stays import made_stays

BUILDERS = {"point": physionet.point, "next": physionet.following}


def all_rows(split):
    return split.batch(torch.arange(len(split)))


@pytest.mark.parametrize("name", BUILDERS)
def test_a_stay_is_in_one_split_only(name):
    task = BUILDERS[name](0, made_stays())
    stays = [{float(v) for v in all_rows(task.split(split))["static"][:, 0]} for split in SPLITS]
    assert sum(map(len, stays)) == len(set.union(*stays)) == 60


@pytest.mark.parametrize("name", BUILDERS)
def test_values_of_the_test_split_change_no_training_row(name):
    stays = made_stays()
    task = BUILDERS[name](0, stays)
    in_test = np.isin(stays.stay, physionet.split_stays(60, 0)[3])
    changed = BUILDERS[name](0, replace(stays, value=np.where(in_test, stays.value + 3, stays.value)))
    for split in SPLITS[:3]:
        one, two = all_rows(task.split(split)), all_rows(changed.split(split))
        assert all(torch.equal(one[key].nan_to_num(), two[key].nan_to_num()) for key in one)
    assert not torch.equal(all_rows(task.test)["x"], all_rows(changed.test)["x"])


def test_the_point_protocol_predicts_every_observation_from_24_hours_on():
    stays = made_stays()
    task = physionet.point(0, stays)
    batch = all_rows(task.test)
    test = np.isin(stays.stay, physionet.split_stays(60, 0)[3])
    assert (~batch["y"].isnan()).sum() == (test & (stays.minutes >= 1440)).sum()
    assert (~batch["mask"]).sum() == (test & (stays.minutes < 1440)).sum()
    assert batch["query_times"][~batch["query_mask"]].min() > 0


def test_point_scores_are_in_min_max_units():
    stays = made_stays()
    task = physionet.point(0, stays)
    y = torch.cat([batch.y[~batch.y.isnan()] for batch in task.batches("calibration")])
    assert y.min() >= 0 and y.max() <= 1
    values = torch.tensor(stays.value)
    shift, scale = task.test.unit(torch.tensor([0]))
    batch = task.test.batch(torch.tensor([0]))
    low, span = task.test.low[batch["query_channel"][0]], task.test.span[batch["query_channel"][0]]
    restored = (shift + scale * batch["y"])[0, :, 0] * span + low
    assert torch.isclose(restored[0], values.to(restored), rtol=1e-5).any()


def test_the_next_three_hours_with_observations_are_predicted():
    task = physionet.following(0, made_stays())
    batch = all_rows(task.test)
    for i in range(len(task.test)):
        hours = batch["query_times"][i][~batch["query_mask"][i]].unique()
        assert len(hours) == 3 and hours.min() >= 1
        assert (batch["times"][i] <= 0).all()


def test_the_last_hours_of_a_stay_are_not_those_of_the_next_stay():
    stay, hour = np.array([0, 0, 1, 1, 1, 1]), np.array([1, 40, 2, 3, 4, 5])
    assert physionet.next_times(stay, hour, np.array([0, 1, 1]), np.array([1, 2, 6])).tolist() == [2, 5, 6]


def test_hourly_values_are_means_at_rounded_hours():
    stays = made_stays()
    stay, hour, channel, value = physionet.hourly(stays, np.array([14, 36]))
    at = (stays.stay == stay[5]) & (np.round(stays.minutes / 60) == hour[5])
    at &= stays.channel == [14, 36][channel[5]]
    assert value[5] == pytest.approx(stays.value[at].mean())


@pytest.mark.parametrize("name", BUILDERS)
def test_every_baseline_has_scores(name):
    task = BUILDERS[name](0, made_stays())
    for baseline in task.baselines:
        method = METHODS[baseline](task.problem)
        fit(method, task.train, task.validation)
        scores = task.score_method(method)
        assert 0 < scores["mse"] < 10 and 0.5 < scores["coverage_90"] <= 1


@pytest.mark.slow
def test_the_last_value_has_the_known_error_on_the_first_split(data):
    task = load_task("physionet-next")
    method = METHODS["persistence"](task.problem)
    fit(method, task.train, task.validation)
    assert task.score_method(method)["mse"] == pytest.approx(0.4113, abs=2e-3)
