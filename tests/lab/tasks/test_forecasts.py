import functools

import numpy as np
import pandas as pd
import pytest
import torch

from nsac.lab.datasets import load_ettm1, load_jena, segments
from nsac.lab.tasks import forecasts
from nsac.lab.tasks.base import SPLITS, load_task
from nsac.methods import METHODS, fit
from support.splits import FITTED_SPLITS, assert_same_columns

pytestmark = pytest.mark.usefixtures("data")

BUILDERS = {
    "ettm1 paper": (forecasts.ettm1_paper, load_ettm1, 13500),
    "ettm1 sound": (lambda seed, frame: forecasts.ettm1_sound(seed, frame, horizon=24), load_ettm1, 46080),
    "jena paper": (forecasts.jena_paper, load_jena, 47426),
    "jena sound": (forecasts.jena_sound, load_jena, 39447),
}
"""Function that builds the task, function that loads the series, and first row of the test split."""

PAPER_FIRST = {"ettm1": (0, 12000, 12750, 13500), "jena": (0, 42157, 44792, 47426)}
"""First row of each split."""


def covered(split, history):
    """Rows that are used by the windows of a split, with this much history, and by their targets."""
    return (split.ends[:, None] + torch.arange(1 - history, split.horizon + 1)).unique()


def first_targets(task, n):
    return next(task.batches("test", batch_size=n)).y.numpy()


def test_restored_targets_are_the_values_of_the_file():
    frame = load_ettm1()
    task = forecasts.ettm1_paper(0, frame)
    values = frame["OT"].to_numpy()
    train = values[:12000]
    expected = np.stack([values[end + 1 : end + 25] for end in task.test.ends[:700].tolist()])
    np.testing.assert_allclose(first_targets(task, 700), (expected - train.min()) / np.ptp(train), atol=1e-12)


@pytest.mark.parametrize(("name", "span"), [("ettm1", 41.927), ("jena", 41.24)])
def test_the_text_of_a_min_max_task_states_the_factor_to_squared_degrees(name, span):
    task = load_task(name, "paper")
    frame, column = (load_ettm1(), "OT") if name == "ettm1" else (load_jena(), "T (degC)")
    degrees = frame[column].to_numpy()[task.test.ends[:3][:, None] + torch.arange(1, 25)]
    np.testing.assert_allclose(np.diff(degrees), span * np.diff(first_targets(task, 3)), atol=1e-3)
    assert f"multiply MSE by {span**2:.4g}" in task.text


def test_persistence_has_the_published_error_in_the_paper_protocol():
    task = load_task("ettm1", "paper")
    persistence = METHODS["persistence"](task.problem)
    fit(persistence, task.train, task.validation)
    assert task.score_method(persistence)["mse"] == pytest.approx(0.0018, abs=5e-5)


def test_persistence_has_the_published_error_in_the_standard_benchmark():
    task, total = load_task("ettm1", "sound"), 0.0
    for batch in task.batches("test", batch_size=1000):
        error = batch.scale * batch.inputs["y"]  # in the unit of the scores; persistence predicts y = 0
        total += error.square().mean(1).sum().item()
    assert total / len(task.test) == pytest.approx(1.214, abs=5e-4)  # of the literature: horizon 96, all variables


@functools.cache
def build_both(name):
    """A task, the same with other values in the test rows, and the number of the first test row."""
    build, load, first = BUILDERS[name]
    frame = load()
    changed = frame.copy()
    numbers = changed.columns.drop("date")
    changed.loc[first:, numbers] = 5 * changed.loc[first:, numbers].sample(frac=1, random_state=0).to_numpy()
    return build(0, frame), build(0, changed), first


@pytest.fixture(params=BUILDERS)
def task_and_changed(request):
    return build_both(request.param)


def test_the_test_split_begins_after_the_last_calibration_target(task_and_changed):
    task, _, first = task_and_changed
    assert task.test.ends.min() + 1 >= first > task.calibration.ends.max() + task.calibration.horizon


def test_the_test_rows_change_no_scaler(task_and_changed):
    task, other, _ = task_and_changed
    for split in FITTED_SPLITS:
        mine, theirs = task.split(split), other.split(split)
        for name in ("change_std", "unit_shift", "unit_scale"):
            assert torch.equal(getattr(mine, name), getattr(theirs, name))


def test_the_test_rows_change_no_window_of_another_split(task_and_changed):
    task, other, first = task_and_changed
    for split in FITTED_SPLITS:
        mine, theirs = task.split(split), other.split(split)
        known = covered(mine, max(mine.lookback, mine.season))
        assert torch.equal(mine.ends, theirs.ends) and known.max() < first
        assert torch.equal(mine.values[known], theirs.values[known])  # all that any window of the split consists of
        rows = torch.arange(0, len(mine), 11)
        assert_same_columns(mine.batch(rows), theirs.batch(rows))
        assert all(map(torch.equal, mine.unit(rows), theirs.unit(rows)))
    rows = torch.arange(5)
    assert not torch.equal(task.test.batch(rows)["y"], other.test.batch(rows)["y"])


@pytest.mark.parametrize("name", PAPER_FIRST)
def test_windows_of_the_paper_protocol_are_inside_their_split(name):
    task = load_task(name, "paper")
    used = [covered(task.split(split), 48) for split in SPLITS]
    for rows, first, last in zip(used, PAPER_FIRST[name], (*PAPER_FIRST[name][1:], 10**6), strict=True):
        assert first <= rows.min() and rows.max() < last


@pytest.mark.parametrize(("name", "protocol"), [
    ("ettm1", "paper"), ("jena", "paper"), ("ettm1", "sound"), ("ettm1-24", "sound"), ("jena", "sound"),
])  # fmt: skip
def test_no_row_is_a_target_of_two_splits(name, protocol):
    task = load_task(name, protocol)
    used = [covered(task.split(split), 48 if protocol == "paper" else 0) for split in SPLITS]
    assert sum(map(len, used)) == len(torch.cat(used).unique())


@pytest.mark.parametrize("name", ["ettm1", "ettm1-24", "jena"])
def test_windows_of_the_sound_protocol_may_begin_before_their_split(name):
    validation = load_task(name, "sound").validation
    first = covered(validation, 0).min()
    assert validation.ends.min() + 1 == first < validation.ends.min() + validation.lookback


def test_no_window_of_jena_crosses_the_gap_the_repeated_time_or_a_missing_value():
    frame = load_jena()
    task = forecasts.jena_paper(0, frame)
    segment = segments(frame["date"], pd.Timedelta("10min"))
    missing = np.flatnonzero(frame[list(frame.columns[:15])].isna().any(axis=1))
    for split in SPLITS:
        ends = task.split(split).ends
        first, last = ends - 47, ends + 24
        assert (segment[first] == segment[last]).all()
        assert not any(((first <= row) & (row <= last)).any() for row in missing)
