import numpy as np
import torch

from nsac.lab.tasks import sporadic
from nsac.lab.tasks.base import SPLITS
from nsac.methods import METHODS, fit
from support.stays import made_readings, made_series


def all_rows(split):
    return split.batch(torch.arange(len(split)))


def test_the_tested_person_is_in_no_other_split():
    table = made_readings()
    task = sporadic.glucose(2, table)
    first = table.times[table.series == 2]
    inside = torch.isin(task.test.origins, torch.tensor(first))
    assert inside.all()
    for split in SPLITS[:3]:
        assert not torch.isin(task.split(split).origins, torch.tensor(first)).any()


def test_a_short_segment_is_left_out():
    segment = sporadic.segments_of(made_readings())
    assert (segment == -1).sum() == 5 * 20 and (segment[:300] == 0).all()


def test_readings_after_a_long_gap_are_no_targets():
    batch = all_rows(sporadic.glucose(0, made_readings()).test)
    assert batch["query_times"].max() <= sporadic.GLUCOSE_HORIZON and (batch["query_times"] >= 0).all()


def test_targets_of_one_split_are_before_the_next():
    table = made_readings()
    task = sporadic.glucose(0, table)
    for person in range(1, 5):
        own = torch.tensor(table.times[table.series == person])
        ends = []
        for split in SPLITS[:3]:
            data = task.split(split)
            rows = torch.isin(data.origins, own)
            ends.append((data.origins[rows].min(), data.queries.times[data.queries.stop[rows] - 1].max()))
        assert ends[0][1] <= ends[1][0] + 1e-9 and ends[1][1] <= ends[2][0] + 1e-9


def test_extrapolation_of_a_wave_is_ahead_of_persistence():
    task = sporadic.glucose(0, made_readings())
    scores = {}
    for name in task.baselines:
        method = METHODS[name](task.problem)
        fit(method, task.train, task.validation)
        scores[name] = task.score_method(method)["crps"]
    assert scores["extrapolation"] < scores["persistence"] < scores["half-mean"]


def test_brusselator_series_are_cut_at_their_origin():
    task = sporadic.brusselator(0, made_series())
    batch = all_rows(task.test)
    assert (task.test.origins == 40).all() and batch["query_times"].max() <= 10
    assert set(np.unique(task.train.origins)) == {20.0, 30.0, 40.0}
