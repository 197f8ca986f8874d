import math

import pytest
import torch

from nsac.lab.studies.demo import LAST_TRAINED, NOISE, TRAINED, UNTRAINED, make_spirals, run_demo
from support.studies import tiny_demo

REGIONS = ["training range", "later times", "other direction"]


@pytest.fixture(scope="module")
def rows():
    """Scores of the demonstration as `nsac demo` runs it, by region."""
    return {row["region"]: row for row in run_demo().rows()}


@pytest.mark.slow
def test_aleatoric_uncertainty_matches_the_noise(rows):
    assert 0.8 < rows[REGIONS[0]]["aleatoric"] / NOISE < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("region", REGIONS[1:])
def test_epistemic_uncertainty_grows_where_there_was_no_training_data(rows, region):
    assert rows[region]["epistemic"] > 5 * rows[REGIONS[0]]["epistemic"]


@pytest.mark.slow
@pytest.mark.parametrize("region", REGIONS)
def test_the_total_uncertainty_matches_the_error(rows, region):
    assert 0.8 < rows[region]["ratio"] < 1.25


def test_every_region_is_scored():
    assert [row["region"] for row in tiny_demo().rows()] == REGIONS


def test_all_scores_are_finite():
    assert all(math.isfinite(value) for row in tiny_demo().rows() for name, value in row.items() if name != "region")


def test_the_total_variance_is_the_sum_of_both():
    for row in tiny_demo().rows():
        assert row["total"] ** 2 == pytest.approx(row["aleatoric"] ** 2 + row["epistemic"] ** 2, rel=1e-4)


def test_the_demo_tests_both_directions_and_times_beyond_training():
    demo = tiny_demo()
    assert set(demo.predictions) == {TRAINED, UNTRAINED}
    assert demo.spirals[TRAINED]["query_times"].max() > LAST_TRAINED


def test_a_demo_follows_from_its_seed():
    again = tiny_demo.__wrapped__()
    assert torch.equal(again.predictions[TRAINED].mean, tiny_demo().predictions[TRAINED].mean)


def spirals(direction, seed=0):
    return make_spirals(direction, torch.linspace(0, 1, 50).expand(3, -1), torch.Generator().manual_seed(seed))


def test_the_other_direction_is_the_mirror_image():
    torch.testing.assert_close(spirals(UNTRAINED)["truth"], spirals(TRAINED)["truth"] * torch.tensor([1.0, -1.0]))


def test_targets_have_the_stated_noise():
    made = make_spirals(TRAINED, torch.rand(2000, 16), torch.Generator().manual_seed(0))
    assert (made["y"] - made["truth"]).std().item() == pytest.approx(NOISE, rel=0.02)


def test_observation_times_are_those_of_training_and_sorted():
    times = spirals(TRAINED)["times"]
    assert (times.diff() >= 0).all() and 0 <= times.min() and times.max() <= LAST_TRAINED
