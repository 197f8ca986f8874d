import numpy as np
import pandas as pd
import pytest

from nsac.datasets import (
    bearings,
    catalog,
    load_bearing,
    load_drive,
    load_ettm1,
    load_jena,
    load_raw_bearing,
    load_uci,
    raw_bearings,
    segments,
    summarise,
)
from nsac.datasets.splits import make_splits

pytestmark = pytest.mark.usefixtures("data")

TABLES = {  # rows, features, first and last target, smallest and largest target, first and last entry of x, sum of x
    "boston": (506, 13, 24.0, 11.9, 5.0, 50.0, 0.00632, 7.88, 460946.55522),
    "kin8nm": (8192, 8, 0.53652416, 0.49685261, 0.040165378, 1.4585206, -0.015119208, None, 162.05629912064336),
    "concrete": (1030, 8, 79.99, 32.4, 2.33, 82.6, 540.0, 28.0, 2460861.1),
    "power-plant": (9568, 4, 480.48, 451.67, 420.26, 495.76, 8.34, None, 11103904.07),
    "wine-red": (1599, 11, 5.0, 6.0, 3.0, 8.0, 7.4, 11.0, 143072.78194),
    "protein": (45730, 9, 17.284, 18.827, 0.0, 20.999, 13558.3, None, 63360363222.70981),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_known_rows_ranges_and_ends(name):
    rows, features, first, last, low, high, corner, end, total = TABLES[name]
    table = load_uci(name)
    assert table.x.shape == (rows, features) == (len(table.y), len(table.features))
    assert (table.y[0], table.y[-1], table.y.min(), table.y.max()) == (first, last, low, high)
    assert table.x[0, 0] == corner and (end is None or table.x[-1, -1] == end)
    assert table.x.sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_the_splits_of_the_file_are_those_of_seed_one(name):
    table = load_uci(name)
    assert len(table.splits) == (5 if name == "protein" else 20)
    made = make_splits(len(table.y), len(table.splits))
    for given, ours in zip(table.splits, made, strict=True):
        for mine, theirs in zip(ours, given, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_repeated_rows_of_concrete_and_protein_are_kept():
    for name, repeated in {"concrete": 25, "protein": 1711}.items():
        table = load_uci(name)
        assert pd.DataFrame(np.column_stack([table.x, table.y])).duplicated().sum() == repeated


def test_ettm1_is_complete_and_regular():
    frame = load_ettm1()
    assert frame.shape == (69680, 8) and not frame.isna().any(axis=None)
    assert frame["date"].iloc[[0, -1]].astype(str).tolist() == ["2016-07-01 00:00:00", "2018-06-26 19:45:00"]
    assert frame["OT"].iloc[[0, -1]].tolist() == [30.5310001373291, 9.777999877929688]
    assert (frame["OT"].min(), frame["OT"].max()) == (-4.2210001945495605, 46.00699996948242)
    assert frame["HUFL"].iloc[[0, -1]].tolist() == [5.827000141143799, 12.994000434875488]
    assert (segments(frame["date"], pd.Timedelta("15min")) == 0).all()


def test_missing_weather_is_missing_and_not_minus_9999():
    frame = load_jena()
    assert frame.shape == (52696, 22)
    assert frame.isna().sum().loc[lambda n: n > 0].to_dict() == {"wv (m/s)": 1, "max. PAR": 30, "OT": 50}
    assert frame.drop(columns="date").min(axis=None) > -100
    assert (frame["T (degC)"].min(), frame["T (degC)"].max()) == (-6.44, 34.8)
    assert frame["T (degC)"].iloc[[0, -1]].tolist() == [0.71, 2.01]
    assert frame["date"].iloc[[0, -1]].astype(str).tolist() == ["2020-01-01 00:10:00", "2021-01-01 00:00:00"]


def test_the_repeated_stamp_and_the_gap_of_jena_survive_and_part_the_record():
    dates = load_jena()["date"]
    steps = dates.diff().value_counts().to_dict()
    assert steps == {pd.Timedelta("10min"): 52693, pd.Timedelta(0): 1, pd.Timedelta("100min"): 1}
    part = segments(dates, pd.Timedelta("10min"))
    assert np.flatnonzero(np.diff(part)).tolist() == [19043, 21513]
    assert dates[19044] == dates[19043] == pd.Timestamp("2020-05-12 06:00")


BEARINGS = {  # rows, first horizontal kurtosis, last vertical deviation, revolutions per minute, load in newton
    ("xjtu", "1_1"): (8000, -0.441369, 2.083128, 2100, 12000),
    ("xjtu", "1_2"): (10000, 0.026621, 3.126788, 2100, 12000),
    ("xjtu", "1_3"): (10000, -0.20537, 0.708481, 2100, 12000),
    ("xjtu", "1_4"): (7000, -0.013471, 0.617508, 2100, 12000),
    ("xjtu", "1_5"): (3000, -0.172078, 5.103258, 2100, 12000),
    ("xjtu", "2_2"): (10000, -0.005156, 3.559167, 2250, 11000),
    ("xjtu", "2_4"): (2000, 0.171406, 6.995497, 2250, 11000),
    ("pronostia", "1_2"): (4458, 0.005245, 4.191857, 1800, 4000),
    ("pronostia", "1_3"): (12159, 0.113104, 7.030301, 1800, 4000),
    ("pronostia", "1_4"): (7310, 0.006501, 10.319606, 1800, 4000),
    ("pronostia", "2_1"): (4663, 0.200264, 2.082787, 1650, 4200),
    ("pronostia", "2_2"): (4079, 0.297466, 3.580825, 1650, 4200),
    ("pronostia", "2_3"): (10008, 0.450795, 1.191118, 1650, 4200),
    ("pronostia", "2_4"): (3844, 0.17167, 1.607984, 1650, 4200),
    ("pronostia", "2_5"): (11831, 1.482119, 1.56027, 1650, 4200),
    ("pronostia", "2_6"): (3588, -0.002515, 2.201474, 1650, 4200),
    ("pronostia", "3_1"): (2635, 1.6369, 1.45786, 1500, 5000),
    ("pronostia", "3_2"): (8380, -0.131616, 2.242385, 1500, 5000),
    ("pronostia", "3_3"): (2221, 0.817496, 2.176151, 1500, 5000),
    ("hust", "1"): (12387, 73.524247, 6.103151, 1800, 4000),
}


def test_every_bearing_of_the_catalogue_is_pinned():
    assert {(rig, name) for rig in ("xjtu", "pronostia", "hust") for name in bearings(rig)} == set(BEARINGS)


@pytest.mark.parametrize("rig, name", BEARINGS)
def test_a_bearing_has_the_known_rows_and_ends(rig, name):
    rows, first, last, rpm, load = BEARINGS[rig, name]
    run = load_bearing(rig, name)
    assert run.features.shape == (rows, 2, 7) and np.isfinite(run.features).all()
    assert run.features[0, 0, 3] == pytest.approx(first, abs=1e-6)
    assert run.features[-1, 1, 6] == pytest.approx(last, abs=1e-6)
    assert (run.rpm, run.load) == (rpm, load)
    assert run.clock[0] == 0 and (np.diff(run.clock) >= 0).all()  # PRONOSTIA 1_3 repeats its last stamp
    labels = [label for label in (run.degradation, run.linear) if not np.isnan(label).any()]
    assert labels and all(label[0] == 0 and label.max() == 1 and label.min() == 0 for label in labels)


def test_a_label_that_was_not_published_is_missing_and_never_another():
    assert np.isnan(load_bearing("pronostia", "1_3").degradation).all()
    for rig, name in (("pronostia", "2_5"), ("hust", "1")):
        run = load_bearing(rig, name)
        assert np.isnan(run.degradation).all()
        assert np.abs(run.linear - np.linspace(0, 1, len(run.linear))).max() < 0.02  # published as the only label


RAW = {  # snapshots, smallest and largest acceleration, last second
    "1_1": (701, -43.678, 44.674, 28000), "1_2": (871, -30.373, 36.717, 8700), "1_3": (594, -48.148, 48.128, 23720),
    "2_2": (797, -38.12, 34.981, 7960), "3_3": (434, -9.992, 15.982, 4330),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_a_raw_run_has_the_known_snapshots_and_range(name):
    snapshots, low, high, last = RAW[name]
    run = load_raw_bearing(name)
    assert set(raw_bearings()) == set(RAW)
    assert run.signal.shape == (snapshots, 2560, 2) and run.signal.dtype == np.float32
    assert (run.signal.min(), run.signal.max()) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert run.elapsed[-1] == last


def test_drives_have_the_known_frames_and_segments():
    lake, mountain = load_drive("lake"), load_drive("mountain")
    assert (len(lake), len(mountain)) == (5111, 1000)
    assert np.bincount(lake.segment).tolist() == [1378, 2203, 1530] and set(mountain.segment) == {0}
    assert (lake.time[-1], mountain.time[-1]) == (532.474, 78.095)
    assert lake.names[0] == "IMG/center_2024_02_12_23_06_24_564.jpg"
    assert (lake.steering == 0).mean() == pytest.approx(0.6983, abs=1e-4)
    assert (lake.steering.min(), lake.steering.max(), mountain.steering[0]) == (-1, 1, 0.5000001)


def test_a_frame_is_read_from_the_middle_of_its_archive():
    pytest.importorskip("PIL", reason="frames need the extra `drive`")
    lake = load_drive("lake")
    assert lake.frame(2500).shape == (160, 320, 3) and lake.frame(2500).dtype == np.uint8
    assert lake.frame(0).mean() == pytest.approx(110.86, abs=0.5)  # decoders round differently


@pytest.mark.parametrize("name", [name for name in catalog() if name != "jena-2009-2016"])
def test_every_source_can_be_summarised(name):
    summary = summarise(name)
    assert list(summary.columns) == ["column", "values", "missing", "min", "max"] and len(summary) > 0
