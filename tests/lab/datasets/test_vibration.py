import math
import sys

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_allclose
from scipy import stats

from nsac.lab.datasets.bearings import load_bearing, load_raw_bearing
from nsac.lab.datasets.vibration import (
    FEATURES,
    _entropy,
    _moments,
    degradation,
    vibration_features,
)
from support import ALPHA

pywt = pytest.importorskip("pywt", reason="needs `pip install 'nsac[bench]'`")

RATE = 25600.0


@pytest.fixture
def rng(seed) -> np.random.Generator:
    return np.random.default_rng(seed)


def feature(features, name):
    return features[..., FEATURES.index(name)]


def sine(frequency, samples):
    return np.sin(2 * math.pi * frequency * np.arange(samples) / RATE)[:, None]


@pytest.mark.parametrize(
    ("samples", "windows"),
    [
        (1000, 1),  # exactly one
        (1499, 1),  # an incomplete window is left out
        (1500, 2),  # the next begins at sample 500
        (2560, 4),  # one snapshot
    ],
)
def test_windows_start_every_hop_and_are_full(samples, windows, rng):
    signal = rng.normal(size=(samples, 2))
    features = vibration_features(signal)
    assert features.shape == (windows, 2, len(FEATURES))
    last = signal[500 * (windows - 1) :][:1000]
    assert_allclose(feature(features, "mean")[-1], last.mean(0))
    assert_allclose(features[-1], vibration_features(last)[0])


def test_moments_are_those_of_scipy(rng):
    signal = rng.gamma(2.0, size=(1000, 3))
    expected = [stats.kurtosis(signal), stats.skew(signal), signal.mean(0), signal.std(0)]
    assert_allclose(vibration_features(signal)[0, :, 3:], np.stack(expected, -1))


def test_entropy_is_that_of_a_histogram_of_three_bins(rng):
    signal = rng.normal(size=(1000, 3))
    expected = [stats.entropy(np.histogram(x, 3)[0]) for x in signal.T]
    assert_allclose(feature(vibration_features(signal), "entropy")[0], expected)
    evenly = feature(vibration_features(np.linspace(0, 1, 999)[:, None], window=999), "entropy")
    assert_allclose(evenly, math.log(3))


@pytest.mark.parametrize("precision", [10, 12])
def test_the_transform_is_that_of_pywavelets(precision, rng):
    signal = rng.normal(size=(256, 1))
    features = vibration_features(signal, window=256, precision=precision)
    frequencies = np.geomspace(550 / 27, 5000 / 27, 100)
    coefficients, seen = pywt.cwt(signal[:, 0], 0.5 * RATE / frequencies, "cmor1.0-0.5", 1 / RATE, precision=precision)
    assert_allclose(seen, frequencies)
    energies = (np.abs(coefficients) ** 2).sum(-1)
    assert_allclose(feature(features, "energy")[0, 0], energies.sum())
    assert_allclose(feature(features, "dominant_frequency")[0, 0], frequencies[energies.argmax()])


@pytest.mark.parametrize("window", [1000, 5120])
@pytest.mark.parametrize("precision", [10, 16])
def test_a_sine_dominates_at_nine_tenths_of_its_frequency(window, precision):
    for frequency in (40.0, 75.0, 150.0):
        features = vibration_features(sine(frequency, window), window=window, precision=precision)
        assert 0.88 < feature(features, "dominant_frequency").item() / frequency < 0.92


def test_the_coarse_wavelet_passes_kilohertz_and_the_fine_one_does_not():
    ringing = sine(128 * 50.0, 1000)  # far above the band, at its image
    coarse, fine = (feature(vibration_features(ringing, precision=p), "energy").item() for p in (10, 16))
    assert coarse > 30 * fine


def test_energy_is_proportional_to_the_square_of_the_amplitude(rng):
    signal = rng.normal(size=(2000, 1))
    one, three = vibration_features(signal), vibration_features(-3 * signal)
    assert_allclose(feature(three, "energy"), 9 * feature(one, "energy"))
    assert_allclose(feature(three, "dominant_frequency"), feature(one, "dominant_frequency"))


def test_shape_does_not_depend_on_unit_or_offset(rng):
    signal = rng.gamma(2.0, size=(2000, 2))
    one, other = vibration_features(signal), vibration_features(5 * signal - 2)
    for name in ("entropy", "kurtosis", "skewness"):
        assert_allclose(feature(other, name), feature(one, name), rtol=1e-9)  # differences of large powers
    assert_allclose(feature(other, "mean"), 5 * feature(one, "mean") - 2)
    assert_allclose(feature(other, "std"), 5 * feature(one, "std"))
    mirrored = vibration_features(-signal)
    assert_allclose(feature(mirrored, "skewness"), -feature(one, "skewness"))


def test_gaussian_noise_has_no_excess_kurtosis(rng):
    n, windows = 100, 1000
    seen = feature(vibration_features(rng.normal(size=(n * windows, 1)), window=n, hop=n), "kurtosis")
    bias, var = -6 / (n + 1), 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    assert abs(seen.mean() - bias) < stats.norm.isf(ALPHA / 2) * math.sqrt(var / windows)


def test_a_constant_window_has_no_shape():
    features = vibration_features(np.full((1000, 1), 0.1))[0, 0]
    assert np.isnan(features[[3, 4]]).all() and np.isfinite(features[[0, 1, 2, 5, 6]]).all()
    assert feature(features, "entropy") == 0 and feature(features, "mean") == pytest.approx(0.1)


@pytest.fixture(scope="module")
def published_and_signal(data):
    signal = load_raw_bearing("1_2").signal.reshape(-1, 2).astype(float).round(3)  # the decimals of the recorder
    return load_bearing("pronostia", "1_2").features, signal


def test_published_features_are_reproduced_at_both_ends_and_in_the_middle(published_and_signal):
    published, signal = published_and_signal
    for start in (0, 2000, 4448):
        features = vibration_features(signal[500 * start :][:5500])
        assert_reproduced(features, published[start : start + 10])


@pytest.mark.slow
def test_all_published_features_are_reproduced(published_and_signal):
    published, signal = published_and_signal
    assert_reproduced(vibration_features(signal), published)


def test_published_moments_and_entropies_are_reproduced_in_all_windows(published_and_signal):
    published, signal = published_and_signal
    windows = sliding_window_view(signal, 1000, 0)[::500]
    assert windows.shape == (4458, 2, 1000) and published.shape == (4458, 2, 7)
    for start in range(0, 4458, 20):  # all at once is slower: it does not fit the cache
        rows = slice(start, start + 20)
        assert_allclose(_moments(windows[rows]), published[rows, :, 3:], rtol=1e-9, atol=1e-11)
        assert_allclose(_entropy(windows[rows]), published[rows, :, 2], atol=3e-7)


def assert_reproduced(features, published):
    entropy = FEATURES.index("entropy")
    others = np.arange(len(FEATURES)) != entropy
    assert_allclose(features[..., others], published[..., others], rtol=1e-9, atol=1e-11)
    assert_allclose(features[..., entropy], published[..., entropy], atol=3e-7)  # theirs adds 1e-9 to densities


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signal": np.zeros(2000)}, r"`signal` must be \(samples, channels\). Got shape \(2000,\).*reshape"),
        ({"signal": np.zeros((999, 2))}, "one window of 1000 samples. Got 999 instead. Lower `window`"),
        ({"signal": np.full((1000, 2), np.nan)}, "finite. Got nan at sample 0 of channel 0"),
        ({"band": (20.0, 20000.0)}, r"at most half the rate \(12800\). Got \(20.0, 20000.0\)"),
        ({"hop": 0}, "`hop` must be a whole number of at least 1. Got 0"),
    ],
)
def test_a_signal_that_cannot_be_divided_into_windows_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        vibration_features(**{"signal": np.zeros((1000, 2)), **change})


def test_a_missing_pywavelets_is_an_error_with_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pywt", None)
    with pytest.raises(ImportError, match=r"PyWavelets.*pip install 'nsac\[bench\]'"):
        vibration_features(np.zeros((1000, 1)))


@pytest.mark.parametrize("wear", [0.0, 0.3, 1.0])
def test_degradation_rises_from_0_to_1(wear, rng):
    times = np.cumsum(rng.exponential(size=500))
    label = degradation(times, wear=wear)
    assert label[0] == 0 and label[-1] == 1 and (np.diff(label) >= 0).all()
    assert_allclose(label, degradation(60 * times + 7, wear=wear))  # in any unit of time


def test_degradation_is_a_thousandth_at_its_onset():
    for onset in (0.3, 0.6, 0.8):
        assert degradation(101, onset=onset)[round(100 * onset)] == pytest.approx(1e-3)


def test_degradation_with_full_wear_is_linear():
    assert_allclose(degradation(11, wear=1), np.linspace(0, 1, 11))


@pytest.mark.parametrize(
    ("rig", "name", "onset", "wear", "error"),
    [
        ("xjtu", "1_1", 0.671, 0.0023, 0.0014),  # steep
        ("xjtu", "2_4", 0.5307, 0.012, 0.0031),  # the worst of its rig
        ("pronostia", "1_2", 0.556, 0.007, 0.0025),
        ("pronostia", "3_1", 0.4715, 0.663, 0.0021),  # mostly linear
        ("pronostia", "3_3", 0.4228, 0.4148, 0.0046),  # the worst of its rig
    ],
)
def test_published_degradation_is_a_linear_and_a_steep_term(rig, name, onset, wear, error, data):
    published = load_bearing(rig, name).degradation
    assert np.abs(degradation(len(published), onset, wear) - published).max() < error


def test_published_linear_degradation_is_all_wear(data):
    for rig, name in [("hust", "1"), ("pronostia", "1_2")]:
        published = load_bearing(rig, name).linear
        assert np.abs(degradation(len(published), wear=1) - published).max() < 1e-3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0, 2.0, 1.0],), "`times` must be at least two increasing times"),
        ((1,), "`times` must be a whole number of at least 2. Got 1"),
        ((5, 1.0), "`onset` must be between 0 and 1"),
        ((5, 0.6, -0.1), "`wear` must be from 0 to 1"),
    ],
)
def test_wrong_arguments_of_degradation_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        degradation(*arguments)
