"""Classes of rows by their missing values, and intervals that are valid in each."""

import numpy as np
import pytest
import torch

from nsac import NSACRegressor, load
from nsac.estimators.graph import make_graph
from nsac.estimators.patterns import MissingPatterns
from support.table_problems import QUICK, quick

NAN = float("nan")


def batch(*patterns: tuple[str, int], categories: bool = False) -> dict[str, torch.Tensor]:
    """Rows with the given patterns, such as ("x.x", 60): the second of three values is known, in 60 rows."""
    rows = [[c == "x" for c in pattern] for pattern, count in patterns for _ in range(count)]
    missing = torch.tensor(rows)
    if not categories:
        return {"x": torch.zeros(missing.shape).masked_fill(missing, NAN)}
    return {"x": torch.zeros(len(rows), 2).masked_fill(missing[:, :2], NAN), "c": 1 - missing[:, 2:].long()}


def fitted(*patterns: tuple[str, int]) -> MissingPatterns:
    found = MissingPatterns.fit(batch(*patterns))
    assert found is not None
    return found


def classes_of(found: MissingPatterns, *patterns: str) -> list[int]:
    return found.classify(batch(*((pattern, 1) for pattern in patterns))).tolist()


def test_rows_without_missing_values_have_no_classes():
    assert MissingPatterns.fit(batch(("...", 100))) is None


def test_frequent_patterns_are_classes_and_a_new_one_is_none():
    found = fitted(("...", 200), ("x..", 60), (".x.", 70))
    assert found.n_classes == 3
    assert classes_of(found, "...", ".x.", "x..", "xx.") == [0, 1, 2, 3]


def test_rare_patterns_are_classes_by_the_number_of_missing_values():
    found = fitted(("....", 200), ("x...", 30), (".x..", 30), ("xx..", 20), (".xx.", 25), ("xxx.", 10), ("xxxx", 2))
    assert found.counts.tolist() == [1, 2]
    assert classes_of(found, "....", "x...", "...x", ".xx.", "x.x.", "xxxx") == [0, 1, 1, 2, 2, 2]


def test_few_rows_with_missing_values_are_one_class():
    found = fitted(("...", 200), ("x..", 5), ("xx.", 3))
    assert found.n_classes == 2
    assert classes_of(found, "...", "x..", "xx.", ".x.") == [0, 1, 1, 1]


def test_a_column_without_missing_values_in_training_does_not_count():
    found = fitted(("...", 100), ("x..", 60))
    assert classes_of(found, "..x", "x.x") == classes_of(found, "...", "x..") == [0, 1]


def test_categories_count_as_numbers_do():
    found = MissingPatterns.fit(batch(("...", 100), ("..x", 60), categories=True))
    assert found is not None
    assert found.classify(batch(("..x", 1), ("...", 1), categories=True)).tolist() == [1, 0]


def test_all_rows_have_missing_values_and_none_is_frequent():
    found = fitted(("x..", 30), (".x.", 30), ("..x", 20))
    assert found.n_classes == 1 and classes_of(found, "x..", "...", "xxx") == [0, 1, 0]


def test_patterns_survive_their_tensors():
    found = fitted(("....", 200), ("x...", 60), (".x..", 30), ("xx..", 60), ("xxx.", 10))
    again = MissingPatterns.from_tensors(found.to_tensors(), 4)
    rows = batch(("....", 1), ("x...", 1), ("xx..", 1), ("xxxx", 1))
    assert torch.equal(again.classify(rows), found.classify(rows))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learned", torch.ones(3) > 0),
        ("frequent", torch.zeros(1, 4)),
        ("frequent", torch.ones(2, 4) > 0),
        ("counts", torch.tensor([2, 1])),
        ("counts", torch.tensor([1.0])),
    ],
)
def test_damaged_patterns_are_refused(name, value):
    tensors = fitted(("....", 200), ("x...", 60), (".x..", 3)).to_tensors() | {name: value}
    with pytest.raises(ValueError, match="must"):
        MissingPatterns.from_tensors(tensors, 4)


# In a regressor


def important_input(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the first input is missing, in a fifth of the rows, errors are at least twice as large."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    y = x @ [1.0, 1.0, 0.5] + 3**-0.5 * random.normal(size=rows)
    x[random.random(rows) < 0.2, 0] = np.nan
    return x, y


@pytest.fixture(scope="module")
def regressor() -> NSACRegressor:
    return quick(members=2).fit(*important_input(200, 0))


def test_intervals_of_a_pattern_have_its_margin(regressor):
    x, _ = important_input(30, 1)
    lower, upper = regressor.predict_interval(x, 0.8).T
    _, std = regressor.predict(x, return_std=True)
    margin = (upper - lower) / 2 / std
    missing = np.isnan(x[:, 0])
    assert np.ptp(margin[missing]) < 1e-9 and np.ptp(margin[~missing]) < 1e-9
    assert abs(margin[missing][0] - margin[~missing][0]) > 1e-3


def test_all_ways_to_intervals_agree_on_patterns(regressor):
    x, _ = important_input(30, 1)
    ends = regressor.predict_interval(x)
    frame = regressor.predict_frame(x)
    p = regressor.predict_distribution(x)
    np.testing.assert_array_equal(frame[["lower_90", "upper_90"]], ends)
    np.testing.assert_allclose(torch.stack(regressor.conformal_interval(p, 0.9, x), 1), ends, rtol=1e-12)
    margin = (regressor.conformal_interval(p, 0.9)[1] - p.mean) / p.std  # of all rows together
    assert np.ptp(margin.numpy()) < 1e-9


def test_patterns_survive_the_folder(regressor, tmp_path):
    x, _ = important_input(30, 1)
    regressor.save(tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").predict_interval(x), regressor.predict_interval(x))


def test_exported_graphs_have_the_intervals_of_patterns(regressor):
    x, _ = important_input(30, 1)
    graph, inputs = make_graph(regressor, 0.9)
    *_, lower, upper = graph(torch.tensor(x), noise=inputs["noise"])
    np.testing.assert_allclose(torch.cat([lower, upper], 1), regressor.predict_interval(x), atol=1e-3)


@pytest.mark.slow
def test_rows_without_an_important_input_are_covered_where_the_margin_of_all_rows_fails_them():
    """Means over 5 fits: of rows without the input, whose errors are twice as large, and of the others."""
    mine, of_all = [], []
    for seed in range(5):
        x, y = important_input(500, seed)
        fast = quick(members=5, training=QUICK | {"max_steps": 60}, random_state=seed).fit(x, y)
        new, new_y = important_input(3000, 1000 + seed)
        p, missing = fast.predict_distribution(new), np.isnan(new[:, 0])
        for found, rows in ((mine, new), (of_all, None)):
            lower, upper = (end.numpy() for end in fast.conformal_interval(p, 0.9, rows))
            covered = (lower <= new_y) & (new_y <= upper)
            found.append([covered[missing].mean(), covered[~missing].mean()])
    without, others = np.mean(mine, 0)
    assert 0.87 <= without <= 0.93
    assert 0.87 <= others
    assert np.mean(of_all, 0)[0] < 0.86


def test_rows_in_groups_have_no_classes():
    x, y = important_input(30, 0)
    fitted_to_groups = quick().fit(x, y, groups=np.arange(30) % 3)
    assert fitted_to_groups.patterns_ is None and fitted_to_groups.calibration_.classes is None
