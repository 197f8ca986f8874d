import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from nsac.lab.datasets import load_bearing
from nsac.lab.tasks import bearings
from nsac.lab.tasks.base import SPLITS, load_task
from support.splits import all_rows, assert_only_the_test_split_differs

pytestmark = pytest.mark.usefixtures("data")

TESTED = {
    ("xjtu", "sound"): {("xjtu", "1_2")},  # with seed 1
    ("pronostia", "sound"): {("pronostia", bearing) for bearing in ("1_2", "1_3", "1_4")},
    ("hust", "sound"): {("hust", "1")},
}
TESTED |= {(name, "paper"): TESTED[name, "sound"] for name in ("pronostia", "hust")}


@functools.cache
def build(name, protocol):
    """A task, and the inputs and labels of its splits before scaling."""
    splits = bearings.paper_splits if protocol == "paper" else bearings.sound_splits
    return load_task(name, protocol, seed=1), splits(name, 1, load_bearing)


@pytest.fixture(params=[(name, protocol) for name in ("xjtu", "pronostia", "hust") for protocol in ("paper", "sound")])
def task_and_rows(request):
    return build(*request.param)


def test_inputs_are_ranks_among_the_training_rows(task_and_rows):
    task, rows = task_and_rows
    train = rows["train"][0]
    for split in SPLITS:
        x = all_rows(task.split(split))["x"]
        below = [stats.percentileofscore(train[:, 0], v, "mean") / 100 for v in rows[split][0][:50, 0]]
        np.testing.assert_allclose(x[:50, 0].numpy(), 3**0.5 * (2 * np.array(below) - 1), atol=1e-9)
        assert x.abs().max() <= 3**0.5
    assert all_rows(task.test)["x"].mean(0).abs().max() > 1e-3  # another mean than that of training


def test_targets_are_standardised_with_the_training_rows(task_and_rows):
    task, rows = task_and_rows
    labels = rows["train"][1]
    shift, scale = task.train.shift.item(), task.train.scale.item()
    assert (shift, scale) == (pytest.approx(labels.mean()), pytest.approx(labels.std()))
    for split in SPLITS:
        y = all_rows(task.split(split))["y"][:, 0].numpy()
        np.testing.assert_allclose(shift + scale * y, rows[split][1], atol=1e-12)


@pytest.mark.parametrize(("name", "protocol"), TESTED)
def test_the_test_bearings_change_no_scaler_and_no_training_row(name, protocol):
    def spoilt(rig, bearing):
        run = load_bearing(rig, bearing)
        return replace(run, features=run.features[::-1] * 3) if (rig, bearing) in TESTED[name, protocol] else run

    assert_only_the_test_split_differs(build(name, protocol)[0], bearings.build(name, protocol, 1, spoilt))


def test_the_test_windows_of_xjtu_in_the_paper_protocol_change_no_scaler_and_no_training_row():
    first = {"1_1": 0, "1_2": 8000, "1_3": 18000}  # of 28,000 windows, one run after the other
    tested = np.zeros(28000, dtype=bool)
    tested[np.random.default_rng(1).permutation(28000)[5600:8400]] = True

    def spoilt(rig, bearing):
        run = load_bearing(rig, bearing)
        mine = tested[first[bearing] :][: len(run.features)]
        return replace(run, features=np.where(mine[:, None, None], run.features[::-1] * 3, run.features))

    task, other = build("xjtu", "paper")[0], bearings.build("xjtu", "paper", 1, spoilt)
    assert_only_the_test_split_differs(task, other)
    assert (all_rows(task.test)["x"] != all_rows(other.test)["x"]).any(1).all()


def test_the_rows_of_the_sound_protocol_do_not_depend_on_the_future():
    run = load_bearing("xjtu", "1_5")
    x, _ = bearings.sound_rows(run)
    cut = 1000
    early, _ = bearings.sound_rows(replace(run, features=run.features[:cut]))
    np.testing.assert_allclose(early, x[: cut - bearings.ROLLING_WINDOWS], rtol=1e-9, atol=1e-9)
