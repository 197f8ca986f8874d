import numpy as np
import pytest

from nsac.lab.datasets import DataError, bearings, load_bearing, load_raw_bearing, raw_bearings
from support.data_files import DAMAGES, copy, expect_refusal, replace_compressed, skip_checksums, write

pytestmark = pytest.mark.usefixtures("data")

BEARINGS = {  # rows, first horizontal kurtosis, last vertical standard deviation, rpm, load in newton
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


def test_every_bearing_of_the_catalogue_has_known_values():
    listed = {(rig, name) for rig in ("xjtu", "pronostia", "hust") for name in bearings(rig)}
    assert listed == set(BEARINGS) == set(RANGES)


@pytest.mark.parametrize(("rig", "name"), BEARINGS)
def test_a_bearing_has_the_known_rows_and_values(rig, name):
    rows, first, last, rpm, load = BEARINGS[rig, name]
    run = load_bearing(rig, name)
    assert run.features.shape == (rows, 2, 7) and np.isfinite(run.features).all()
    assert run.features[0, 0, 3] == pytest.approx(first, abs=1e-6)
    assert run.features[-1, 1, 6] == pytest.approx(last, abs=1e-6)
    assert (run.rpm, run.load) == (rpm, load)
    assert run.clock[0] == 0 and (np.diff(run.clock) >= 0).all()  # PRONOSTIA 1_3 repeats its last time


@pytest.mark.parametrize(("rig", "name"), BEARINGS)
def test_the_labels_of_a_bearing_range_from_0_to_1(rig, name):
    run = load_bearing(rig, name)
    labels = [label for label in (run.degradation, run.linear) if not np.isnan(label).any()]
    assert labels and all(label[0] == 0 and label.max() == 1 and label.min() == 0 for label in labels)


@pytest.mark.parametrize(("rig", "name"), RANGES)
def test_a_bearing_has_the_known_ranges_and_labels(rig, name):
    run = load_bearing(rig, name)
    energy, kurtosis, middle = run.features[..., 0], run.features[..., 3], len(run.clock) // 2
    labels = run.degradation[3 * middle // 2], run.linear[middle]
    found = (energy.min(), energy.max(), kurtosis.max(), run.clock[-1], *labels)
    assert found == pytest.approx(RANGES[rig, name], rel=1e-5, nan_ok=True)


def test_the_remaining_life_of_xjtu_is_in_minutes_and_stops_before_the_end():
    runs = [load_bearing("xjtu", name).remaining for name in bearings("xjtu")]
    first, last = [123, 161, 158, 122, 52, 161, 42], [1, 9, 6, 16, 7, 9, 12]
    assert [(run[0], run[-1]) for run in runs] == list(zip(first, last, strict=True))
    assert all((np.diff(run) <= 0).all() for run in runs)


def test_a_remaining_life_that_was_not_published_is_missing():
    assert np.isnan(load_bearing("hust", "1").remaining).all()


@pytest.mark.parametrize(("rig", "name"), [("pronostia", "1_3"), ("pronostia", "2_5"), ("hust", "1")])
def test_a_degradation_that_was_not_published_is_missing(rig, name):
    assert np.isnan(load_bearing(rig, name).degradation).all()


@pytest.mark.parametrize(("rig", "name"), [("pronostia", "2_5"), ("hust", "1")])
def test_a_linear_label_that_was_published_as_the_only_one_is_the_linear_one(rig, name):
    linear = load_bearing(rig, name).linear
    assert np.abs(linear - np.linspace(0, 1, len(linear))).max() < 0.02


RAW = {  # snapshots, smallest and largest acceleration, last second, first and last sample of both axes
    "1_1": (701, -43.678, 44.674, 28000, (0.552, -0.146), (0.172, -1.161)),
    "1_2": (871, -30.373, 36.717, 8700, (0.05, -0.253), (-4.701, -0.508)),
    "1_3": (594, -48.148, 48.128, 23720, (0.092, 0.044), (-9.121, 2.581)),
    "2_2": (797, -38.12, 34.981, 7960, (0.038, 0.29), (-1.678, -1.049)),
    "3_3": (434, -9.992, 15.982, 4330, (-0.043, -0.084), (0.817, -3.113)),
}


def test_every_raw_run_of_the_catalogue_has_known_values():
    assert set(raw_bearings()) == set(RAW)


@pytest.mark.parametrize("name", RAW)
def test_a_raw_run_has_the_known_snapshots_and_values(name):
    snapshots, low, high, seconds, first, last = RAW[name]
    run = load_raw_bearing(name)
    assert run.signal.shape == (snapshots, 2560, 2) and run.signal.dtype == np.float32
    assert (run.signal.min(), run.signal.max()) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert run.signal[0, 0].tolist() == pytest.approx(first) and run.signal[-1, -1].tolist() == pytest.approx(last)
    assert len(run.elapsed) == snapshots and (run.elapsed[0], run.elapsed[-1]) == (0, seconds)


XJTU = "bearings/xjtu/Bearing2_4_features_with_labels.csv.gz"
RAW_PATH = "bearings/raw-pronostia/Full_Test_Set_Bearing3_3.npz"
READERS = {XJTU: lambda: load_bearing("xjtu", "2_4"), RAW_PATH: lambda: load_raw_bearing("3_3")}


@pytest.mark.parametrize("path", READERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(data, folder, monkeypatch, path, damage):
    write(folder, path, DAMAGES[damage]((data / path).read_bytes()))
    skip_checksums(monkeypatch, folder)
    expect_refusal(READERS[path], folder / path)


@pytest.mark.parametrize("path", READERS)
def test_a_folder_in_place_of_a_file_is_refused(folder, path):
    (folder / path).mkdir(parents=True)
    expect_refusal(READERS[path], folder / path)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"]", b", 1.0]", "'Horizontal' of row 0 has 8 numbers"),  # would shift all rows after it
        (b"[", b"[high, ", "'Horizontal' of row 0 has 8 numbers"),
        (b"[", b"[x", "could not convert"),
        (b",2250", b",fast", "could not convert"),
    ],
)
def test_a_bearing_with_a_broken_row_is_refused(data, folder, monkeypatch, old, new, reason):
    replace_compressed(copy(data, XJTU, folder), lambda text: text.replace(old, new, 1))
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match=f"{XJTU} is not a table of numbers and lists of 7 numbers .*{reason}"):
        load_bearing("xjtu", "2_4")


def test_a_bearing_that_lacks_a_row_is_refused(data, folder, monkeypatch):
    replace_compressed(copy(data, XJTU, folder), lambda text: text.strip().rsplit(b"\n", 1)[0])
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match=r"must have 2000 rows\. Got 1999"):
        load_bearing("xjtu", "2_4")


@pytest.mark.parametrize("shape", [(433, 2560, 2), ()])
def test_raw_signals_of_another_shape_are_refused(folder, monkeypatch, shape):
    (folder / RAW_PATH).parent.mkdir(parents=True)
    np.savez(folder / RAW_PATH, signal=np.zeros(shape), elapsed_seconds=np.zeros(434))
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match=r"Bearing3_3\.npz is not 434 snapshots .* Put an intact copy"):
        load_raw_bearing("3_3")
