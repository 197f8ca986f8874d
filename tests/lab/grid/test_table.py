import pytest

from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Store
from nsac.lab.grid.table import against_best, current_records, paper_number, paper_table, table_rows
from support.runs import a_record, a_record_of, tiny


def records(values, metric="crps", **about):
    """`values`: method to a value per seed."""
    return [
        a_record(seed, method=method, metrics={metric: value}, **about)
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]


@pytest.mark.parametrize(("task", "method", "metric", "number"), [
    ("spiral", "nsac", "mse", (0.0002, 0.0001)), ("hust", "sdenet", "ece_paper", (0.0204, 0.0034)),
    ("pronostia", "der", "nll", (-2.1217, 1.3504)), ("spiral", "nsac", "extrapolation_mse", (0.0017, None)),
    ("spiral", "ridge", "mse", (None, None)), ("boston", "nsac", "width_90", (None, None)),
])  # fmt: skip
def test_the_papers_numbers_are_those_it_prints(task, method, metric, number):
    assert paper_number(task, method, metric) == number


def test_a_table_of_the_paper_is_found_by_its_name():
    assert paper_table("figure_8")["topk"] == 8


@pytest.fixture
def rows():
    made = table_rows(records({"nsac": [0.1, 0.3], "gmle": [0.2, None]}))
    return {(row["method"], row["metric"]): row for row in made}


def test_a_row_has_mean_std_number_of_seeds_and_the_papers_mean(rows):
    row = rows["nsac", "crps"]
    assert row["mean"] == pytest.approx(0.2) and row["std"] == pytest.approx(0.02**0.5) and row["n"] == 2
    assert row["paper"] == 0.0940


def test_a_row_has_no_mean_if_a_seed_is_not_finite(rows):
    assert rows["gmle", "crps"]["mean"] is None


def test_the_costs_of_a_run_are_rows(rows):
    assert rows["nsac", "fit_seconds"]["mean"] == 1.5 and rows["nsac", "parameters"]["mean"] == 7


def test_the_papers_numbers_are_not_shown_beside_another_protocol():
    assert table_rows(records({"nsac": [0.1]}, protocol="sound"))[0]["paper"] is None


def test_one_seed_has_no_std():
    (row, *_) = table_rows(records({"nsac": [0.1]}))
    assert row["std"] is None and row["n"] == 1


def test_differences_are_tested_in_pairs():
    # Seeds differ by much more than methods do, yet `b` is worse by about the same every time; `c` is not.
    p = against_best(records({"a": [1, 2, 3, 4], "b": [1.1, 2.11, 3.1, 4.09], "c": [1.5, 1.6, 3.6, 3.5]}), "crps")
    assert p["a"] is None and p["b"] < 0.01 and p["c"] > 0.05


@pytest.mark.parametrize(("values", "p_values"), [
    ({"a": [1, 1], "b": [1, 1]}, {"a": None, "b": 1.0}),  # no difference
    ({"a": [1, 2], "b": [2, 3]}, {"a": None, "b": 0.0}),  # the same difference every time
    ({"a": [1], "b": [2]}, {"a": None}),  # one seed allows no test
    ({"a": [1, None], "b": [2, 2]}, {}),  # only one method with finite values
    ({"a": [1, 2]}, {}),
])  # fmt: skip
def test_what_cannot_be_tested_is_left_out(values, p_values):
    assert against_best(records(values), "crps") == p_values


def test_coverage_is_best_near_its_nominal_value():
    values = {"a": [0.99, 0.98], "b": [0.91, 0.89]}
    assert next(iter(against_best(records(values, "coverage_90_calibrated"), "coverage_90_calibrated"))) == "b"


def test_width_has_no_best_value():
    metric = "interpolation_width_90_calibrated"
    assert against_best(records({"a": [0.99, 0.98], "b": [0.91, 0.89]}, metric), metric) == {}


def test_stale_records_are_left_out(tmp_path):
    store, current = Store(tmp_path), run_config("boston", "paper", "nsac", 0)
    store.write(a_record_of(current))
    stale = [a_record_of(tiny("boston", "paper", "nsac")), a_record(method="gone")]
    for record in stale:
        store.write(record)
    found, names = current_records(store)
    assert [record.key for record in found] == [current.key] and set(names) == {record.name for record in stale}
