import pytest

from nsac.estimators.recipe import WEIGHT_DECAYS, mixture_training, weight_decay_candidates


@pytest.mark.parametrize(("rows", "count"), [(99, 1), (100, len(WEIGHT_DECAYS)), (3001, len(WEIGHT_DECAYS) // 2)])
def test_the_search_depends_on_the_number_of_rows(rows, count):
    assert len(weight_decay_candidates(rows, rows)) == count


def test_weight_decay_falls_with_the_square_root_of_the_rows():
    few, many = weight_decay_candidates(200, 250), weight_decay_candidates(200, 1000)
    assert few[0]["weight_decay"] == pytest.approx(2 * many[0]["weight_decay"])


@pytest.mark.parametrize(("rows", "steps"), [(5, 20), (1000, 450), (32_000, 3027)])
def test_training_steps_grow_slower_than_the_rows(rows, steps):
    assert mixture_training(rows)["max_steps"] == steps
