"""Bearings: features of raw vibration, and degradation labels of a run to failure."""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from nsac._checks import check_int, check_positive

FEATURES = ("energy", "dominant_frequency", "entropy", "kurtosis", "skewness", "mean", "std")
"""Last axis of `vibration_features`, the order of the published files."""
WAVELET = "cmor1.0-0.5"
"""Complex Morlet wavelet of PyWavelets: psi(x) = exp(-x^2 + i pi x) / sqrt(pi) on [-8, 8]."""
NUM_SCALES = 100
ENTROPY_BINS = 3
"""Bins of the histogram behind the entropy, as published; the entropy is at most log 3."""
ONSET_DEGRADATION = 1e-3
"""Value of the steep term of `degradation` at `onset`."""
CHUNK_WINDOWS = 8
"""Windows processed at a time: 13 MB of wavelet coefficients per window of two channels."""


def vibration_features(
    signal: ArrayLike,
    window: int = 1000,
    hop: int = 500,
    rate: float = 25600.0,
    band: tuple[float, float] = (550 / 27, 5000 / 27),
    precision: int = 10,
) -> np.ndarray:
    r"""Seven features of each window and channel, `FEATURES`, as (windows, channels, 7).

    With $c_{s,t}$ the continuous wavelet transform of the window at scale $s$ and sample $t$, by a complex Morlet
    wavelet of 0.5 cycles per unit, at 100 frequencies $f_s = 0.5\,\mathrm{rate}/s$ in geometric steps over `band`:

    - energy $\sum_{s,t}|c_{s,t}|^2$;
    - dominant frequency: the $f_s$ whose $\sum_t|c_{s,t}|^2$ is largest, in the unit of `rate`;
    - entropy $-\sum_b p_b\log p_b$ of the samples' histogram, three equal bins between their extremes;
    - excess kurtosis, skewness, mean and standard deviation of the samples (no bias correction; the first two are NaN
      in a constant window).

    Coefficients grow with the square root of the scale, so the dominant frequency of a sine of frequency f is lower,
    0.88 f to 0.92 f.

    The defaults reproduce the published features of PRONOSTIA bearing 1_2, from accelerations with the three decimals
    they were recorded with, `signal.astype(float).round(3)`. Their wavelet is a table of $2^{10}$ points, 64 per unit,
    while the scales are 69 to 628 samples per unit: the filter becomes a comb filter and passes images of the band
    around multiples of $128 f_s$, several kHz, where bearings resonate. `precision=16` is the transform without images.

    Args:
        signal: (samples, channels), accelerations; concatenate snapshots with `signal.reshape(-1, 2)`.
        window: samples per window.
        hop: samples from one window's start to the next; an incomplete last window is left out.
        rate: samples per second.
        band: lowest and highest frequency of the transform. The published files use 550/27 to 5000/27 Hz for PRONOSTIA
            and HUST, 500/81 to 2000/27 Hz for XJTU-SY.
        precision: the wavelet is tabulated at 2 ** precision points.
    """
    check_int("window", window, 2)
    check_int("hop", hop)
    check_int("precision", precision)
    check_positive("rate", rate)
    signal = np.asarray(signal, float)
    if signal.ndim != 2:
        raise ValueError(
            f"`signal` must be (samples, channels). Got shape {signal.shape} instead. Concatenate snapshots "
            "with `signal.reshape(-1, channels)`."
        )
    if len(signal) < window:
        raise ValueError(
            f"`signal` must have at least one window of {window} samples. Got {len(signal)} instead. Lower `window`, "
            "or concatenate several snapshots."
        )
    if not np.isfinite(signal).all():
        sample, channel = np.argwhere(~np.isfinite(signal))[0]
        raise ValueError(
            f"`signal` must be finite. Got {signal[sample, channel]} at sample {sample} of channel {channel} instead. "
            "Remove these samples, or interpolate them."
        )
    if not 0 < band[0] < band[1] <= rate / 2:
        raise ValueError(
            f"`band` must be two increasing frequencies above 0, at most half the rate ({rate / 2:g}). Got {band} "
            "instead. Give both in the unit of `rate`."
        )
    frequencies = np.geomspace(*band, NUM_SCALES)
    spectra = _filter_spectra(0.5 * rate / frequencies, window, precision)
    windows = sliding_window_view(signal, window, 0)[::hop]  # windows, channels, samples
    features = np.empty((*windows.shape[:2], len(FEATURES)))
    for start in range(0, len(windows), CHUNK_WINDOWS):
        chunk = slice(start, start + CHUNK_WINDOWS)
        x = windows[chunk]
        spectrum = np.fft.rfft(x, 2 * window)[..., None, None, :] * spectra  # ... scales, parts, frequencies
        coefficients = np.fft.irfft(spectrum)[..., :window]
        energies = np.einsum("...pt,...pt->...", coefficients, coefficients)
        features[chunk, :, 0] = energies.sum(-1)
        features[chunk, :, 1] = frequencies[energies.argmax(-1)]
        features[chunk, :, 2] = _entropy(x)
        features[chunk, :, 3:] = _moments(x)
    return features


def degradation(times: ArrayLike, onset: float = 0.6, wear: float = 0.0) -> np.ndarray:
    r"""Degradation of a run to failure: 0 at its first time, 1 at its last, and steep towards the end.

    $$D = w\,u + (1 - w)\,u^p, \qquad u = \frac{t - t_0}{t_1 - t_0}, \qquad p = \frac{\log 0.001}{\log \text{onset}}$$

    It summarises published labels, which are functions of the row number and do not depend on the vibration.

    Args:
        times: (rows,), increasing; or the number of evenly spaced rows.
        onset: fraction of life at which the steep term reaches 0.001, between 0 and 1.
        wear: weight w of the linear term, from 0 to 1.
    """
    if not 0 < onset < 1:
        raise ValueError(f"`onset` must be between 0 and 1, a fraction of life. Got {onset!r} instead.")
    if not 0 <= wear <= 1:
        raise ValueError(f"`wear` must be from 0 to 1, a weight. Got {wear!r} instead.")
    if np.ndim(times) == 0:
        check_int("times", times, 2)
    times = np.asarray(times, float)
    if times.ndim == 0:
        times = np.arange(float(times))
    if times.ndim != 1 or len(times) < 2 or not (np.diff(times) > 0).all():
        raise ValueError(
            f"`times` must be at least two increasing times, or the number of rows. Got shape {times.shape} instead. "
            "Pass one run at a time, sorted."
        )
    u = (times - times[0]) / (times[-1] - times[0])
    return wear * u + (1 - wear) * u ** (math.log(ONSET_DEGRADATION) / math.log(onset))


def _filter_spectra(scales: np.ndarray, window: int, precision: int) -> np.ndarray:
    # Fourier transforms of the wavelets, real and imaginary part, (scales, 2, window + 1). The filter is the difference
    # of the wavelet's tabulated integral, stretched to `scale` samples per unit. Within a window only lags below its
    # length matter, so 2 * window points represent both signs of lag without wrapping.
    try:
        import pywt
    except ImportError:
        raise ImportError(
            "`vibration_features` needs PyWavelets, which is missing. Install it with `pip install 'nsac[bench]'`."
        ) from None
    table, x = pywt.integrate_wavelet(WAVELET, precision)[:2]
    lags = np.fft.ifftshift(np.arange(-window, window))  # 0, 1, ..., -2, -1: the order of the Fourier transform
    filters = np.empty((len(scales), 2, len(lags)))
    for n, scale in enumerate(scales):
        step = scale * (x[1] - x[0])  # samples from one point of the table to the next
        length = math.ceil(min(scale * (x[-1] - x[0]) + 1, step * len(x)))
        place = length // 2 - 1 + lags
        difference = _stretched(table, step, length, place) - _stretched(table, step, length, place + 1)
        coefficients = np.sqrt(scale) * difference
        filters[n] = coefficients.real, coefficients.imag
    return np.fft.rfft(filters)


def _stretched(table: np.ndarray, step: float, length: int, place: np.ndarray) -> np.ndarray:
    # Time is reversed and the wavelet is conjugated: a correlation, written as a convolution. The wavelet's mean is not
    # exactly 0, so its integral ends with a jump from 0.085 to 0, as in PyWavelets and the published features.
    inside = (place >= 0) & (place < length)
    row = ((length - 1 - place) / step).astype(int).clip(0, len(table) - 1)
    return np.where(inside, table[row].conj(), 0)


def _entropy(x: np.ndarray) -> np.ndarray:  # ... t -> ...
    low, high = x.min(-1), x.max(-1)
    edges = [low + (high - low) / ENTROPY_BINS * b for b in range(1, ENTROPY_BINS)]
    above = [np.ones(low.shape), *((x >= edge[..., None]).mean(-1) for edge in edges), np.zeros(low.shape)]
    p = -np.diff(above, axis=0)
    return -(p * np.log(np.where(p > 0, p, 1))).sum(0)


def _moments(x: np.ndarray) -> np.ndarray:  # ... t -> ... 4
    mean, std = x.mean(-1), x.std(-1)
    std_or_nan = np.where(np.ptp(x, -1) > 0, std, np.nan)  # rounding can give a constant window a tiny std
    z = (x - mean[..., None]) / std_or_nan[..., None]
    square = z * z
    kurtosis, skewness = (square * square).mean(-1) - 3, (square * z).mean(-1)
    return np.stack([kurtosis, skewness, mean, std], -1)
