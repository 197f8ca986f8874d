import numpy as np

from nsac.estimators.stream import LEVELS, Stream


def drifting_stream():
    random = np.random.default_rng(0)
    stream = Stream(np.abs(random.normal(size=(200, 5))))
    scores = np.abs(random.normal(size=(5000, 5))) * np.linspace(1, 3, 5000)[:, None]
    return stream, scores, stream.update(np.arange(5000), scores)


def test_adaptive_margins_have_their_coverage_although_observations_are_delayed():
    _, scores, margins = drifting_stream()
    assert np.abs((scores[:, None] <= margins).mean(0) - LEVELS[:, None]).max() < 0.01


def test_margins_grow_with_coverage():
    stream, _, _ = drifting_stream()
    assert (np.diff([stream.margin(c) for c in (0.5, 0.7, 0.9, 0.97)], axis=0) > 0).all()


def test_a_lead_time_without_observations_does_not_adapt():
    stream = Stream(np.ones((50, 2)))
    before = stream.alpha.copy()
    stream.update(np.arange(3), np.array([[9.0, np.nan]] * 3))
    assert (stream.alpha[:, 0] < before[:, 0]).all() and (stream.alpha[:, 1] == before[:, 1]).all()
