import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from nsac.lab.datasets import load_bearing, load_ettm1, load_jena, load_uci, make_spirals, segments
from nsac.lab.tasks import bearings, forecasts, spirals, tables
from nsac.lab.tasks.base import TASKS, load_task, tasks_of
from nsac.methods import METHODS, fit
from nsac.training import WindowData, typical_change, window_ends
from nsac.uncertainty import Prediction

EIGHT = ("spiral", "boston", "kin8nm", "ettm1", "jena", "xjtu", "pronostia", "hust")
PARTS = ("train", "validation", "calibration", "test")


def every_batch(part):
    return part.batch(torch.arange(len(part)))


def same(one, two):
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=0)


def test_every_task_of_the_paper_has_both_protocols():
    load_task("spiral", "paper")
    assert {(name, protocol) for name in EIGHT for protocol in ("paper", "sound")} <= set(TASKS)
    assert tasks_of("ettm1") == [("ettm1", "paper"), ("ettm1", "sound"), ("ettm1-24", "sound")]


@pytest.mark.parametrize("name, protocol", [(name, p) for name in EIGHT for p in ("paper", "sound")])
def test_a_task_says_what_it_does_and_fits_its_problem(name, protocol, request):
    if name != "spiral":
        request.getfixturevalue("data")
    task = load_task(name, protocol, seed=1)
    assert 200 < len(task.text) < 2000 and "\n" not in task.text and "{" not in task.text
    for part in PARTS:
        data = getattr(task, part)
        rows = torch.arange(len(data))[:: max(1, len(data) // 20)]
        batch, (shift, scale) = data.batch(rows), data.unit(rows)
        assert torch.isfinite(batch["x"]).all() and torch.isfinite(batch["y"]).all()
        assert batch["y"].shape[0] == len(rows) and batch["y"].shape[-1] == task.problem.output_dim
        assert (torch.broadcast_to(scale, batch["y"].shape) > 0).all() and torch.isfinite(shift).all()
    for method in task.naive:
        assert task.problem.kind in METHODS[method].kinds


def test_a_perfect_prediction_scores_nothing_in_the_unit_of_the_task(data):
    task = load_task("ettm1", "paper")
    scores = task.score(lambda batch: Prediction.gaussian(batch["y"], torch.full_like(batch["y"], 0.1)))
    assert scores["mse"] == pytest.approx(0, abs=1e-20) and scores["coverage_90"] == 1


def test_restored_targets_are_the_values_of_the_file(data):
    frame = load_ettm1()
    task = forecasts.ettm1_paper(0, frame)
    rows = torch.tensor([0, 700])
    _, y = task.restore(lambda batch: Prediction.gaussian(batch["y"], torch.ones_like(batch["y"])), "test", rows)
    train = frame["OT"].to_numpy()[:12000]
    ends = task.test.ends[rows].numpy()
    expected = np.stack([frame["OT"].to_numpy()[end + 1 : end + 25] for end in ends])
    np.testing.assert_allclose(y.numpy(), (expected - train.min()) / np.ptp(train), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name, protocol", [("boston", "paper"), ("boston", "sound"), ("ettm1", "sound")])
def test_a_prediction_is_restored_with_its_deviation(data, name, protocol):
    task = load_task(name, protocol)
    rows = torch.arange(5)
    raw = Prediction.gaussian(task.test.batch(rows)["y"] + 0.5, torch.full_like(task.test.batch(rows)["y"], 0.25))
    scaled, y = task.restore(lambda batch: raw, "test", rows)
    _, scale = task.test.unit(rows)
    torch.testing.assert_close(scaled.std, scale.abs() * raw.std)
    torch.testing.assert_close(scaled.mean - y, (0.5 * scale).expand(y.shape))


def test_the_nll_is_that_of_the_unit_of_the_task(data):
    task = load_task("boston", "sound")
    table = load_uci("boston")
    std = task.test.scale.item()  # of the training targets, in 1000 dollars
    y = table.y[table.splits[0][1]]
    scores = task.score(lambda batch: Prediction.gaussian(torch.zeros_like(batch["y"]), torch.ones_like(batch["y"])))
    z = (y - task.test.shift.item()) / std
    assert scores["nll"] == pytest.approx((0.5 * math.log(2 * math.pi) + math.log(std) + z**2 / 2).mean())
    assert scores["mse"] == pytest.approx((std * z) @ (std * z) / len(z)) and 8 < std < 10


@pytest.mark.parametrize("name", ["xjtu", "pronostia", "hust"])
@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_bearings_are_seen_as_ranks_among_the_training_rows(data, name, protocol):
    parts = bearings._paper_parts if protocol == "paper" else bearings._sound_parts
    raw = parts(name, 1, load_bearing)
    task = load_task(name, protocol, seed=1)
    (train, target), shift, scale = raw["train"], task.train.shift.item(), task.train.scale.item()
    assert (shift, scale) == (pytest.approx(target.mean()), pytest.approx(target.std()))
    for part in PARTS:
        batch = every_batch(getattr(task, part))
        below = [stats.percentileofscore(train[:, 0], v, "mean") / 100 for v in raw[part][0][:50, 0]]
        np.testing.assert_allclose(batch["x"][:50, 0].numpy(), 3**0.5 * (2 * np.array(below) - 1), atol=1e-9)
        assert batch["x"].abs().max() <= 3**0.5
        np.testing.assert_allclose(shift + scale * batch["y"][:, 0].numpy(), raw[part][1], atol=1e-12)
    assert every_batch(task.test)["x"].mean(0).abs().max() > 1e-3  # another mean than that of training


REPEATED = {  # test rows of split 0, and how many of them equal a row of the nine tenths
    "boston": (51, 0), "kin8nm": (819, 0), "concrete": (103, 5), "power-plant": (957, 11), "wine-red": (160, 51),
    "protein": (4573, 297),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_a_table_says_how_many_test_rows_are_repeated(data, name):
    n, repeated = REPEATED[name]
    task = load_task(name, "sound")
    assert f" {repeated} of the {n} test rows equal a row of the nine tenths" in task.text and len(task.test) == n


@pytest.mark.parametrize("name, span", [("ettm1", 41.927), ("jena", 41.24)])
def test_a_min_max_task_says_the_way_to_degrees(data, name, span):
    task = load_task(name, "paper")
    rows = torch.arange(3)
    _, y = task.restore(lambda batch: Prediction.gaussian(batch["y"], torch.ones_like(batch["y"])), "test", rows)
    record, column = (load_ettm1(), "OT") if name == "ettm1" else (load_jena(), "T (degC)")
    degrees = record[column].to_numpy()[task.test.ends[rows][:, None] + torch.arange(1, 25)]
    np.testing.assert_allclose(np.diff(degrees), span * np.diff(y.numpy()), atol=1e-3)
    assert f"multiply MSE by {span**2:.4g}" in task.text


def test_every_part_of_the_spirals_can_be_scored():
    task = load_task("spiral", "paper")
    for part in PARTS:
        scores = task.score(lambda batch: Prediction.gaussian(batch["y"], torch.ones_like(batch["y"])), part)
        assert scores["mse"] == 0 and ("interpolation_mse" in scores) == (part != "train")


def test_a_seed_below_0_is_refused():
    with pytest.raises(ValueError, match="`seed` must be a whole number of at least 0. Got -1"):
        load_task("spiral", seed=-1)


def test_repeating_the_last_value_of_ettm1_scores_as_published(data):
    task = load_task("ettm1", "paper")
    naive = METHODS["persistence"](task.problem)
    fit(naive, task.train, task.validation)
    assert task.score_method(naive)["mse"] == pytest.approx(0.0018, abs=5e-5)
    task = load_task("ettm1", "sound")
    total = 0.0
    for rows in torch.arange(len(task.test)).split(1000):
        error = task.test.unit(rows)[1] * task.test.batch(rows)["y"]  # in units of the score; repeating says y = 0
        total += error.square().mean(1).sum().item()
    assert total / len(task.test) == pytest.approx(1.214, abs=5e-4)  # the literature's, horizon 96, all variables


def test_the_mean_spiral_is_an_answer_in_the_paper_and_none_in_the_sound_protocol():
    scores = {}
    for protocol in ("paper", "sound"):
        task = load_task("spiral", protocol)
        naive = METHODS["mean"](task.problem)
        fit(naive, task.train, task.validation)
        scores[protocol] = task.score_method(naive)
    assert scores["paper"]["interpolation_mse"] < 2e-4 and scores["paper"]["extrapolation_mse"] < 1.7e-3
    assert scores["sound"]["interpolation_mse"] > 0.02 and scores["sound"]["extrapolation_mse"] > 0.1


# Leaks: what is fitted must not change when the test part does.


def unchanged(task, other):
    for part in ("train", "validation", "calibration"):
        mine, theirs = getattr(task, part), getattr(other, part)
        same(every_batch(mine), every_batch(theirs))
        rows = torch.arange(len(mine))
        for a, b in zip(mine.unit(rows), theirs.unit(rows), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("protocol", ["paper", "sound"])
def test_the_test_rows_of_a_table_change_no_scaler_and_no_training_tensor(data, protocol):
    table = load_uci("boston")
    task = tables.build("boston", protocol, 2, table)
    order = np.random.default_rng(2).permutation(506)
    test = order[round(0.9 * 506) :] if protocol == "paper" else table.splits[2][1]
    x, y = table.x.copy(), table.y.copy()
    x[test], y[test] = 1e3 * np.random.default_rng(0).permutation(x[test]), y[test][::-1] * 7
    other = tables.build("boston", protocol, 2, replace(table, x=x, y=y))
    unchanged(task, other)
    assert not torch.equal(every_batch(task.test)["x"], every_batch(other.test)["x"])


BUILDERS = {
    "ettm1 paper": (forecasts.ettm1_paper, load_ettm1, 13500),
    "ettm1 sound": (lambda seed, frame: forecasts.ettm1_sound(seed, frame, horizon=24), load_ettm1, 46080),
    "jena paper": (forecasts.jena_paper, load_jena, 47426),
    "jena sound": (forecasts.jena_sound, load_jena, 39447),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_test_rows_of_a_record_change_no_scaler_and_no_training_window(data, name):
    build, load, first = BUILDERS[name]
    frame = load()
    task = build(0, frame)
    assert task.test.ends.min() + 1 >= first > task.calibration.ends.max() + task.calibration.horizon
    changed = frame.copy()
    numbers = changed.columns.drop("date")
    shuffled = changed.loc[first:, numbers].sample(frac=1, random_state=0)
    changed.loc[first:, numbers] = 5 * shuffled.to_numpy()
    other = build(0, changed)
    for part in ("train", "validation", "calibration"):
        mine, theirs = getattr(task, part), getattr(other, part)
        known = covered(mine, max(mine.lookback, mine.season))
        assert torch.equal(mine.ends, theirs.ends) and known.max() < first
        for what in ("change_std", "unit_shift", "unit_scale"):
            assert torch.equal(getattr(mine, what), getattr(theirs, what))
        assert torch.equal(mine.values[known], theirs.values[known])  # all that any window of the part is made of
        rows = torch.arange(0, len(mine), 11)
        same(mine.batch(rows), theirs.batch(rows))
        assert all(map(torch.equal, mine.unit(rows), theirs.unit(rows)))
    rows = torch.arange(5)
    assert not torch.equal(task.test.batch(rows)["y"], other.test.batch(rows)["y"])


def covered(part, history):
    """Rows that the windows of a part, with this much history, and their targets are made of."""
    return (part.ends[:, None] + torch.arange(1 - history, part.horizon + 1)).unique()


PAPER_FIRST = {"ettm1": (0, 12000, 12750, 13500), "jena": (0, 42157, 44792, 47426)}


@pytest.mark.parametrize("name", PAPER_FIRST)
def test_windows_of_the_paper_protocol_lie_wholly_inside_their_part(data, name):
    task = load_task(name, "paper")
    seen = [covered(getattr(task, part), 48) for part in PARTS]
    for rows, first, last in zip(seen, PAPER_FIRST[name], (*PAPER_FIRST[name][1:], 10**6), strict=True):
        assert first <= rows.min() and rows.max() < last
    assert sum(map(len, seen)) == len(torch.cat(seen).unique())


@pytest.mark.parametrize("name", ["ettm1", "ettm1-24", "jena"])
def test_targets_of_the_sound_protocol_keep_to_their_part(data, name):
    task = load_task(name, "sound")
    seen = [covered(getattr(task, part), 0) for part in PARTS]
    assert sum(map(len, seen)) == len(torch.cat(seen).unique())
    assert task.validation.ends.min() + 1 == seen[1].min() < task.validation.ends.min() + task.validation.lookback


TESTED = {
    ("xjtu", "sound"): {("xjtu", "1_2")},  # with seed 1
    ("pronostia", "sound"): {("pronostia", bearing) for bearing in ("1_2", "1_3", "1_4")},
    ("hust", "sound"): {("hust", "1")},
}
TESTED |= {(name, "paper"): TESTED[name, "sound"] for name in ("pronostia", "hust")}


@pytest.mark.parametrize("name, protocol", TESTED)
def test_the_test_bearings_change_no_scaler_and_no_training_row(data, name, protocol):
    def spoilt(rig, bearing):
        run = load_bearing(rig, bearing)
        return replace(run, features=run.features[::-1] * 3) if (rig, bearing) in TESTED[name, protocol] else run

    task, other = bearings.build(name, protocol, 1), bearings.build(name, protocol, 1, spoilt)
    unchanged(task, other)
    assert not torch.equal(every_batch(task.test)["x"], every_batch(other.test)["x"])


def test_the_test_windows_of_xjtu_in_the_paper_protocol_change_no_scaler_and_no_training_row(data):
    first = {"1_1": 0, "1_2": 8000, "1_3": 18000}  # of 28,000 windows, one run after the other
    tested = np.zeros(28000, dtype=bool)
    tested[np.random.default_rng(1).permutation(28000)[5600:8400]] = True

    def spoilt(rig, bearing):
        run = load_bearing(rig, bearing)
        mine = tested[first[bearing] :][: len(run.features)]
        return replace(run, features=np.where(mine[:, None, None], run.features[::-1] * 3, run.features))

    task, other = bearings.build("xjtu", "paper", 1), bearings.build("xjtu", "paper", 1, spoilt)
    unchanged(task, other)
    changed = every_batch(task.test)["x"] != every_batch(other.test)["x"]
    assert changed.any(1).all()


def test_spirals_of_the_test_part_change_no_training_row(generator):
    data = make_spirals(generator=generator)
    other = make_spirals(generator=generator)
    mixed = {}
    for name in ("x", "times", "y", "truth"):
        mixed[name] = torch.cat([getattr(data, name)[:250], getattr(other, name)[250:]])
    task, changed = spirals.build("sound", 0, data), spirals.build("sound", 0, replace(data, **mixed))
    unchanged(task, changed)
    for name in ("x", "times", "y"):
        assert (every_batch(task.test)[name] != every_batch(changed.test)[name]).any()
    fitted = [METHODS["mean"](task.problem) for _ in range(2)]
    for method, one in zip(fitted, (task, changed), strict=True):
        fit(method, one.train, one.validation)
    batch = every_batch(task.test)
    assert torch.equal(fitted[0].predict(batch).mean, fitted[1].predict(batch).mean)


def test_training_rows_of_spirals_are_the_queries_of_the_first_200_each_once(generator):
    data = make_spirals(generator=generator)
    batch = every_batch(spirals.build("sound", 0, data).train)
    spiral = torch.arange(200).repeat_interleave(10)
    assert torch.equal(batch["x"], data.x[spiral]) and torch.equal(batch["times"], data.times[spiral])
    place = torch.searchsorted(data.query_times, batch["query_times"])
    assert torch.equal(batch["y"], data.y[spiral[:, None], place])
    asked = place.view(200, 150)
    assert torch.equal(asked.sort(-1).values, torch.arange(150).expand(200, -1))
    assert len(set(map(tuple, asked.tolist()))) == 200  # every spiral is dealt in its own order


def test_the_dealing_of_queries_does_not_reuse_the_numbers_of_the_spirals(seed):
    batch = every_batch(load_task("spiral", "sound", seed).train)
    asked = batch["query_times"].view(200, 150).argsort(-1).argsort(-1)
    reused = torch.rand(200, 150, generator=torch.Generator().manual_seed(seed)).argsort(-1)
    assert (asked == reused).double().mean() < 0.02  # 1 in 150 by chance


def test_the_parts_of_a_task_share_no_row(data):
    for name, protocol in (("boston", "paper"), ("boston", "sound"), ("xjtu", "paper"), ("xjtu", "sound")):
        task = load_task(name, protocol, seed=3)
        rows = [tuple(row) for part in PARTS for row in every_batch(getattr(task, part))["x"].tolist()]
        repeated = len(rows) - len(set(rows))
        assert repeated == 0


def test_the_sound_bearing_rows_know_nothing_of_the_future(data):
    run = load_bearing("xjtu", "1_5")
    x, _ = bearings.sound_rows(run)
    cut = 1000
    early, _ = bearings.sound_rows(replace(run, features=run.features[:cut]))
    np.testing.assert_allclose(early, x[: cut - bearings.ROLLING], rtol=1e-9, atol=1e-9)


# Windows.


def test_no_window_crosses_a_change_of_segment_or_a_missing_row():
    segment = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2])
    whole = np.ones(13, dtype=bool)
    assert window_ends(segment, 2, 1).tolist() == [1, 2, 5, 6, 7, 10, 11]
    whole[6] = False
    assert window_ends(segment, 2, 1, whole).tolist() == [1, 2, 10, 11]
    assert window_ends(np.zeros(13), 2, 1).tolist() == list(range(1, 12))  # across everything, when asked
    assert window_ends(segment, 4, 2).tolist() == []  # no stretch is six rows long
    assert window_ends(segment[:2], 4, 2).tolist() == []


def test_no_window_of_jena_crosses_the_gap_the_repeated_stamp_or_a_missing_value(data):
    frame = load_jena()
    task = forecasts.jena_paper(0, frame)
    stretch = segments(frame["date"], pd.Timedelta("10min"))
    bad = np.flatnonzero(frame[list(frame.columns[:15])].isna().any(axis=1))
    for part in PARTS:
        first, last = (getattr(task, part).ends + step for step in (-47, 24))
        assert (stretch[first] == stretch[last]).all()
        assert not any(((first <= row) & (row <= last)).any() for row in bad)


def test_a_window_holds_the_rows_before_its_end_and_the_changes_after_it(generator):
    values = torch.randn(60, 3, generator=generator).cumsum(0)
    ends = window_ends(np.zeros(60), 10, 4)
    unit = typical_change(values, ends, 4, [2])
    windows = WindowData(values, ends, 8, 4, [2], unit, season=5)
    batch = windows.batch(torch.tensor([3]))
    end = int(ends[3])
    torch.testing.assert_close(batch["x"][0], values[end - 7 : end + 1])
    torch.testing.assert_close(batch["y"][0] * unit[:, 0] + values[end, 2], values[end + 1 : end + 5, 2])
    torch.testing.assert_close(batch["seasonal"][0] * unit[:, 0] + values[end, 2], values[end - 4 : end, 2])
    assert (batch["persistence"] == 0).all()
    shift, scale = windows.offset_and_scale(torch.tensor([3]))
    torch.testing.assert_close(shift + scale * batch["y"], values[None, end + 1 : end + 5, 2])


def test_the_season_before_a_long_horizon_is_always_a_known_one():
    values = torch.arange(40.0)[:, None]
    windows = WindowData(values, torch.tensor([19]), 6, 10, [0], torch.ones(10, 1), season=4)
    before = windows.batch(torch.tensor([0]))["seasonal"][0] + values[19, 0]
    assert before.tolist() == [16, 17, 18, 19, 16, 17, 18, 19, 16, 17]


@pytest.mark.parametrize(
    ("ends", "season"),
    [
        ([6, 20], 0),  # a row short of the lookback
        ([7, 20], 9),  # a row short of the season
        ([20, 36], 0),  # a row beyond the last forecast
    ],
)
def test_a_window_that_would_wrap_around_the_record_is_refused(ends, season):
    values = torch.arange(40.0)[:, None]
    with pytest.raises(ValueError, match="`ends` must be from . to 35: .* Got .* instead. Take them from `window_ends"):
        WindowData(values, torch.tensor(ends), 8, 4, [0], torch.ones(4, 1), season=season)
    assert len(WindowData(values, torch.tensor([7, 35]), 8, 4, [0], torch.ones(4, 1), season=8)) == 2
    assert len(WindowData(values, torch.empty(0, dtype=torch.long), 8, 4, [0], torch.ones(4, 1))) == 0


def test_the_windows_of_ettm1_are_views(data):
    frame = load_ettm1()
    values = torch.as_tensor(frame.drop(columns="date").to_numpy())
    tracemalloc.start()
    pages = _resident()
    ends = window_ends(np.zeros(len(values)), 48, 24)
    windows = WindowData(values, ends, 48, 24, [6], torch.ones(24, 1))
    windows.batch(torch.arange(128))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(windows) == 69609 and windows._views.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()
    assert peak < 20e6 and _resident() - pages < 100e6  # copies would be 187 MB


def _resident() -> int:
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096
