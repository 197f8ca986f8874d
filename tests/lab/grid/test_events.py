"""Evaluation of events."""

import functools
from dataclasses import replace

import pytest
import torch

from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.evaluation import calibrate, evaluate
from nsac.lab.grid.events import calibrate_channels
from nsac.lab.grid.run import run_fitted
from nsac.lab.tasks import physionet, sporadic
from nsac.methods import METHODS, fit
from support.stays import made_readings, made_stays

TRAIN = {"max_steps": 4, "batch_size": 8, "validate_every": 2, "accelerator": "cpu"}


@functools.cache
def evaluated():
    task = physionet.point(0, made_stays())
    method = METHODS["persistence"](task.problem)
    fit(method, task.train, task.validation)
    predict = method.predict
    return task, method, evaluate(task, predict, calibrate(task, predict))


def test_errors_are_averaged_per_channel_first():
    task, method, evaluation = evaluated()
    squared = {}
    for batch in task.batches("test"):
        p, known = batch.restore(method.predict(batch.inputs)), ~batch.y.isnan()
        for channel, error in zip(
            batch.inputs["query_channel"][..., None][known].tolist(), (p.mean - batch.y)[known].tolist(), strict=True
        ):
            squared.setdefault(channel, []).append(error**2)
    expected = sum(sum(each) / len(each) for each in squared.values()) / len(squared)
    assert evaluation.metrics["mse_channels"] == pytest.approx(expected)


def test_the_last_value_has_the_ratio_1_to_itself():
    metrics = evaluated()[2].metrics
    assert metrics["mse_channels_ratio"] == pytest.approx(1) and metrics["mse_ratio"] == pytest.approx(1)


def test_a_channel_that_never_changes_is_no_error():
    stays = made_stays(200)
    stays = replace(
        stays, value=torch.from_numpy(stays.value).where(torch.from_numpy(stays.channel) != 17, 1.0).numpy()
    )
    task = physionet.point(0, stays)
    method = METHODS["persistence"](task.problem)
    fit(method, task.train, task.validation)
    scale, margin = calibrate_channels(task, method.predict, 0.9)
    assert margin[17] == 0 and scale.scale.isfinite().all() and (scale.scale > 0).all()


def test_every_observed_target_is_in_the_histogram():
    task, _, evaluation = evaluated()
    count = sum(int((~batch.y.isnan()).sum()) for batch in task.batches("test"))
    assert sum(evaluation.pit["raw"]) == sum(evaluation.pit["calibrated"]) == count
    assert len(evaluation.bands) == 1 and len(evaluation.bands[0]["y"]) == len(evaluation.bands[0]["at"]) > 1


def test_scores_do_not_depend_on_the_size_of_a_batch():
    task, method, _ = evaluated()
    one, two = task.score(method.predict, batch_size=3), task.score(method.predict, batch_size=50)
    assert one == pytest.approx(two)


@pytest.mark.parametrize("name", ["nsac", "gmle", "mcd", "de", "der", "sdenet"])
def test_every_neural_method_makes_a_record(name):
    task = sporadic.glucose(0, made_readings(readings=250))
    few = {split: task.split(split).subset(range(40)) for split in ("train", "validation", "calibration", "test")}
    task = replace(task, **few)
    torch.set_default_dtype(torch.float32)
    record = run_fitted(RunConfig("glucose", "sound", name, 0, name, 1, num_samples=4, train=TRAIN), task=task).record
    assert all(record.metrics[score] > 0 for score in ("crps", "30min_crps", "60min_crps"))
    assert 0 <= record.metrics["coverage_90_calibrated"] <= 1
