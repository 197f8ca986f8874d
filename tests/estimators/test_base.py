import numpy as np
import pytest
import torch

from nsac import Prediction
from nsac.estimators import base
from nsac.estimators.base import calibration_size, join, minimise_unimodal, random_splits
from nsac.training import DivergedError
from support.table_problems import numbers, quick


def test_a_divergence_is_retried_with_a_lower_learning_rate(monkeypatch):
    rates, fit = [], base.fit

    def failing(member, train, validation, config, **more):
        rates.append(config.learning_rate)
        if len(rates) == 1:
            raise DivergedError("too fast")
        return fit(member, train, validation, config, **more)

    monkeypatch.setattr(base, "fit", failing)
    quick(members=1).fit(*numbers())
    assert rates[1] == pytest.approx(rates[0] / 10)


@pytest.mark.parametrize(
    ("rows", "size"),
    [(5, 1), (100, 20), (200, 40), (399, 40), (1000, 100), (100_000, 2000)],  # never none, a fifth, 40, a tenth, 2000
)
def test_the_calibration_set_is_a_tenth_within_limits(rows, size):
    assert calibration_size(rows) == size


@pytest.mark.parametrize("members", [1, 4, 10])
def test_a_member_trains_on_all_rows_but_its_fold(members):
    splits = random_splits(40, members, np.random.RandomState(0))
    assert len(splits) == members
    for train, validation in splits:
        assert np.array_equal(np.sort(np.concatenate([train, validation])), np.arange(40)) and len(validation) <= 5


@pytest.mark.parametrize("value", [0, 1.5, 10**9])
def test_the_number_of_draws_is_checked(value):
    with pytest.raises(ValueError, match="`num_samples` must be"):
        quick(num_samples=value).fit(*numbers())


@pytest.mark.parametrize("scores", [[3, 2, 1, 0], [0, 1, 2, 3], [3, 1, 2, 4], [3, 2, 1, 4], [1], [2, 1], [1, 2]])
def test_the_minimum_is_found_and_no_point_scored_twice(scores):
    seen = []

    def score(i):
        seen.append(i)
        return scores[i]

    assert minimise_unimodal(score, len(scores)) == scores.index(min(scores))
    assert len(seen) == len(set(seen)) and len(seen) <= max(1, len(scores) - 1) or len(scores) == 2


@pytest.mark.parametrize(("axis", "shape"), [(0, (4, 3)), (1, (2, 6))])
def test_predictions_are_joined_along_draws_or_rows(axis, shape):
    p = Prediction(torch.zeros(2, 3), torch.ones(2, 3))
    assert join([p, p], axis).mean_draws.shape == shape


@pytest.mark.parametrize("more", [{}, {"method": "de", "training": {"max_steps": 3, "batch_size": 16}}])
def test_one_bar_shows_all_members(monkeypatch, more):
    bars = []

    class Recorded(base.ProgressBar):
        def __enter__(self):
            self.shown = []
            bars.append(self)
            return self

        def __call__(self, progress):
            self.shown.append((self._run, progress.step))

    monkeypatch.setattr(base, "ProgressBar", Recorded)
    quick(verbose=True, **more).fit(*numbers(120 if more else 60))
    assert len(bars) == 1 and bars[0].enabled
    assert {run for run, _ in bars[0].shown} == set(range(1, bars[0].runs + 1))
    assert bars[0].runs == 2 if not more else bars[0].runs > 4  # with weight decays that are searched
