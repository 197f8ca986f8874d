import numpy as np
import pandas as pd
import pytest

from nsac.lab.datasets import (
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
from nsac.lab.datasets.splits import make_splits
from nsac.training import window_ends

pytestmark = pytest.mark.usefixtures("data")

TABLES = {  # rows, features, first and last target, smallest and largest target, first and last entry of x, sum of x
    "boston": (506, 13, 24.0, 11.9, 5.0, 50.0, 0.00632, 7.88, 460946.55522),
    "kin8nm": (8192, 8, 0.53652416, 0.49685261, 0.040165378, 1.4585206, -0.015119208, -1.3273843, 162.05629912064336),
    "concrete": (1030, 8, 79.99, 32.4, 2.33, 82.6, 540.0, 28.0, 2460861.1),
    "power-plant": (9568, 4, 480.48, 451.67, 420.26, 495.76, 8.34, 71.24, 11103904.07),
    "wine-red": (1599, 11, 5.0, 6.0, 3.0, 8.0, 7.4, 11.0, 143072.78194),
    "protein": (45730, 9, 17.284, 18.827, 0.0, 20.999, 13558.3, 29.8118, 63360363222.70981),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_known_rows_ranges_and_ends(name):
    rows, features, first, last, low, high, corner, end, total = TABLES[name]
    table = load_uci(name)
    assert table.x.shape == (rows, features) == (len(table.y), len(table.features))
    assert (table.y[0], table.y[-1], table.y.min(), table.y.max()) == (first, last, low, high)
    assert (table.x[0, 0], table.x[-1, -1]) == (corner, end)
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


ETTM1 = {  # first, last, smallest and largest value, to the file's three decimals
    "HUFL": (5.827, 12.994, -23.242, 24.18), "HULL": (2.009, 3.818, -5.693, 10.315),
    "MUFL": (1.599, 8.244, -26.367, 18.087), "MULL": (0.462, 1.777, -6.041, 7.853),
    "LUFL": (4.203, 4.721, -1.188, 8.498), "LULL": (1.34, 1.523, -1.371, 3.046), "OT": (30.531, 9.778, -4.221, 46.007),
}  # fmt: skip
JENA = {
    "p (mbar)": (1008.89, 978.24, 955.58, 1020.07), "T (degC)": (0.71, 2.01, -6.44, 34.8),
    "Tpot (K)": (273.18, 276.89, 266.19, 309.13), "Tdew (degC)": (-1.33, -0.66, -13.81, 20.5),
    "rh (%)": (86.1, 82.4, 21.16, 100.0), "VPmax (mbar)": (6.43, 7.06, 3.77, 55.67),
    "VPact (mbar)": (5.54, 5.82, 2.09, 24.16), "VPdef (mbar)": (0.89, 1.24, 0.0, 42.1),
    "sh (g/kg)": (3.42, 3.71, 1.3, 15.4), "H2OC (mmol/mol)": (5.49, 5.95, 2.09, 24.53),
    "rho (g/m**3)": (1280.62, 1235.71, 1107.38, 1318.52), "wv (m/s)": (1.02, 0.57, 0.08, 13.77),
    "max. wv (m/s)": (1.6, 1.08, 0.0, 22.9), "wd (deg)": (224.3, 221.3, 0.0, 360.0),
    "rain (mm)": (0.0, 0.0, 0.0, 11.2), "raining (s)": (0.0, 0.0, 0.0, 600.0), "SWDR": (0.0, 0.0, 0.0, 1115.29),
    "PAR": (0.0, 0.0, 0.0, 2131.76), "max. PAR": (0.0, 0.0, 0.0, 2498.94), "Tlog (degC)": (11.45, 13.48, 6.9, 49.09),
    "OT": (428.1, 436.5, 305.5, 524.2),
}  # fmt: skip


def expect_ends(frame, known):
    assert list(frame.columns) == ["date", *known]
    for column, expected in known.items():
        values = frame[column]
        found = (values.iloc[0], values.iloc[-1], values.min(), values.max())
        assert found == pytest.approx(expected, abs=1e-6), column


def test_ettm1_is_complete_and_regular():
    frame = load_ettm1()
    assert frame.shape == (69680, 8) and not frame.isna().any(axis=None)
    assert frame["date"].iloc[[0, -1]].astype(str).tolist() == ["2016-07-01 00:00:00", "2018-06-26 19:45:00"]
    expect_ends(frame, ETTM1)
    assert (segments(frame["date"], pd.Timedelta("15min")) == 0).all()


def test_missing_weather_is_missing_and_not_minus_9999():
    frame = load_jena()
    assert frame.shape == (52696, 22)
    assert frame.isna().sum().loc[lambda n: n > 0].to_dict() == {"wv (m/s)": 1, "max. PAR": 30, "OT": 50}
    assert frame.drop(columns="date").min(axis=None) > -100
    expect_ends(frame, JENA)
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


NAN = float("nan")
RANGES = {  # smallest and largest energy, largest kurtosis, last clock, degradation at 3/4 and linear label at 1/2
    ("xjtu", "1_1"): (54834.1, 8.54657e06, 52.8363, 312.46094, 0.00822722, NAN),
    ("xjtu", "1_2"): (52837.9, 1.03623e07, 28.8744, 390.58594, 0.0060318, NAN),
    ("xjtu", "1_3"): (34711.2, 6.15957e06, 13.8148, 390.58594, 0.0060318, NAN),
    ("xjtu", "1_4"): (11715.4, 4.30517e06, 30.8001, 273.39844, 0.0100869, NAN),
    ("xjtu", "1_5"): (72104.9, 5.11803e06, 5.86205, 117.14844, 0.0311267, NAN),
    ("xjtu", "2_2"): (36580.2, 9.93038e06, 66.5104, 390.58594, 0.00612644, NAN),
    ("xjtu", "2_4"): (40756, 6.91649e06, 3.24629, 78.085938, 0.0546016, NAN),
    ("pronostia", "1_2"): (10480.4, 2.00127e06, 251.3, 174.10156, 0.0401973, 0.499459),
    ("pronostia", "1_3"): (9269.36, 1.48139e09, 194.826, 474.88281, NAN, 0.49826),
    ("pronostia", "1_4"): (13076.2, 3.14555e07, 25.0744, 285.50781, 0.0236247, 0.524339),
    ("pronostia", "2_1"): (333.774, 910725, 78.8493, 182.10938, 0.0381752, 0.499317),
    ("pronostia", "2_2"): (5175.31, 2.15661e06, 35.041, 159.29688, 0.0847026, 0.499403),
    ("pronostia", "2_3"): (6517.55, 7.22776e06, 189.359, 390.89844, 0.0150635, 0.498584),
    ("pronostia", "2_4"): (7951.11, 255538, 33.2014, 150.11719, 0.0552017, 0.506772),
    ("pronostia", "2_5"): (6208.4, 2.89937e06, 213.432, 462.10938, NAN, 0.501841),
    ("pronostia", "2_6"): (6879.12, 628700, 73.4748, 140.11719, 0.180312, 0.603585),
    ("pronostia", "3_1"): (4472.79, 5.8859e06, 256.161, 102.89062, 0.52283, 0.499614),
    ("pronostia", "3_2"): (548.138, 716558, 147.618, 327.30469, 0.0183092, 0.498832),
    ("pronostia", "3_3"): (6716.39, 628779, 6.53066, 86.71875, 0.373774, 0.506442),
    ("hust", "1"): (67084.4, 1.75421e07, 212.58, 241.91406, NAN, 0.499093),
}


def test_every_bearing_of_the_catalogue_is_pinned():
    listed = {(rig, name) for rig in ("xjtu", "pronostia", "hust") for name in bearings(rig)}
    assert listed == set(BEARINGS) == set(RANGES)


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


@pytest.mark.parametrize("rig, name", RANGES)
def test_a_bearing_has_the_known_ranges_and_labels(rig, name):
    run = load_bearing(rig, name)
    energy, kurtosis, middle = run.features[..., 0], run.features[..., 3], len(run.clock) // 2
    labels = run.degradation[3 * middle // 2], run.linear[middle]
    found = (energy.min(), energy.max(), kurtosis.max(), run.clock[-1], *labels)
    assert found == pytest.approx(RANGES[rig, name], rel=1e-5, nan_ok=True)


def test_remaining_life_is_that_of_xjtu_in_minutes_and_stops_before_the_end():
    names = bearings("xjtu")
    runs = [load_bearing("xjtu", name).remaining for name in names]
    first, last = [123, 161, 158, 122, 52, 161, 42], [1, 9, 6, 16, 7, 9, 12]
    assert [(run[0], run[-1]) for run in runs] == list(zip(first, last, strict=True))
    assert all((np.diff(run) <= 0).all() for run in runs)
    assert np.isnan(load_bearing("hust", "1").remaining).all()


def test_a_label_that_was_not_published_is_missing_and_never_another():
    assert np.isnan(load_bearing("pronostia", "1_3").degradation).all()
    for rig, name in (("pronostia", "2_5"), ("hust", "1")):
        run = load_bearing(rig, name)
        assert np.isnan(run.degradation).all()
        assert np.abs(run.linear - np.linspace(0, 1, len(run.linear))).max() < 0.02  # published as the only label


RAW = {  # snapshots, smallest and largest acceleration, last second, first and last sample of both axes
    "1_1": (701, -43.678, 44.674, 28000, (0.552, -0.146), (0.172, -1.161)),
    "1_2": (871, -30.373, 36.717, 8700, (0.05, -0.253), (-4.701, -0.508)),
    "1_3": (594, -48.148, 48.128, 23720, (0.092, 0.044), (-9.121, 2.581)),
    "2_2": (797, -38.12, 34.981, 7960, (0.038, 0.29), (-1.678, -1.049)),
    "3_3": (434, -9.992, 15.982, 4330, (-0.043, -0.084), (0.817, -3.113)),
}


@pytest.mark.parametrize("name", RAW)
def test_a_raw_run_has_the_known_snapshots_and_range(name):
    snapshots, low, high, seconds, first, last = RAW[name]
    run = load_raw_bearing(name)
    assert set(raw_bearings()) == set(RAW)
    assert run.signal.shape == (snapshots, 2560, 2) and run.signal.dtype == np.float32
    assert (run.signal.min(), run.signal.max()) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert run.signal[0, 0].tolist() == pytest.approx(first) and run.signal[-1, -1].tolist() == pytest.approx(last)
    assert len(run.elapsed) == snapshots and (run.elapsed[0], run.elapsed[-1]) == (0, seconds)


def test_drives_have_the_known_frames_and_segments():
    lake, mountain = load_drive("lake"), load_drive("mountain")
    assert (len(lake), len(mountain)) == (5111, 1000)
    assert np.bincount(lake.segment).tolist() == [1378, 2203, 1530] and set(mountain.segment) == {0}
    assert (lake.time[-1], mountain.time[-1]) == (532.474, 78.095)
    assert lake.names[0] == "IMG/center_2024_02_12_23_06_24_564.jpg"
    assert (lake.steering == 0).mean() == pytest.approx(0.6983, abs=1e-4)
    assert (lake.steering.min(), lake.steering.max(), mountain.steering[0]) == (-1, 1, 0.5000001)
    assert mountain.names[-1] == "IMG/center_2019_02_21_19_46_02_617.jpg"


CONTROLS = {  # first, last, smallest, largest and mean value
    ("lake", "throttle"): (0, 0, 0, 1, 0.974541),
    ("lake", "brake"): (0, 0, 0, 1, 0.011087),
    ("lake", "speed"): (7.934661e-05, 24.52003, 7.758039e-05, 30.49817, 29.486407),
    ("mountain", "throttle"): (1, 0, 0, 1, 0.342947),
    ("mountain", "brake"): (0, 0, 0, 1, 0.006426),
    ("mountain", "speed"): (20.14617, 13.73275, 9.356259, 30.56718, 23.302693),
}


@pytest.mark.parametrize("track, control", CONTROLS)
def test_controls_of_a_drive_have_the_known_ends_and_ranges(track, control):
    values = getattr(load_drive(track), control)
    found = (values[0], values[-1], values.min(), values.max(), values.mean())
    assert found == pytest.approx(CONTROLS[track, control], abs=1e-6)


def test_no_window_of_a_drive_crosses_a_segment():
    drive = load_drive("lake")
    history, horizon = 16, 4
    ends = window_ends(drive.segment, history, horizon).numpy()
    assert (drive.segment[ends - history + 1] == drive.segment[ends + horizon]).all()
    assert len(ends) == sum(n - history - horizon + 1 for n in (1378, 2203, 1530))  # and none is left out


def test_a_frame_is_read_from_the_middle_of_its_archive():
    pytest.importorskip("PIL", reason="frames need the extra `drive`")
    lake = load_drive("lake")
    assert lake.frame(2500).shape == (160, 320, 3) and lake.frame(2500).dtype == np.uint8
    assert lake.frame(0).mean() == pytest.approx(110.86, abs=0.5)  # decoders round differently


@pytest.mark.parametrize("name", [name for name in catalog() if name != "jena-2009-2016"])
def test_every_source_can_be_summarised(name):
    summary = summarise(name)
    assert list(summary.columns) == ["column", "values", "missing", "min", "max"] and len(summary) > 0
