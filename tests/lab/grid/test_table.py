import pytest

from nsac.lab.grid.config import run_config
from nsac.lab.grid.store import Store
from nsac.lab.grid.table import against_best, current_records, paper_number, table_rows
from support.runs import a_record, tiny


def records(values, metric="crps", **about):
    """`values`: method to a value per seed."""
    return [
        a_record(seed, method=method, metrics={metric: value}, **about)
        for method, each in values.items()
        for seed, value in enumerate(each)
    ]


def test_the_papers_numbers_are_those_it_prints():
    assert paper_number("spiral", "nsac", "mse") == (0.0002, 0.0001)
    assert paper_number("hust", "sdenet", "ece_paper") == (0.0204, 0.0034)
    assert paper_number("pronostia", "der", "nll") == (-2.1217, 1.3504)
    assert paper_number("spiral", "nsac", "extrapolation_mse") == (0.0017, None)
    assert paper_number("spiral", "ridge", "mse") == paper_number("boston", "nsac", "width_90") == (None, None)


def test_rows_have_mean_deviation_number_and_the_papers_mean():
    rows = {(r["method"], r["metric"]): r for r in table_rows(records({"nsac": [0.1, 0.3], "gmle": [0.2, None]}))}
    row = rows["nsac", "crps"]
    assert {"task", "protocol", "method", "metric", "mean", "std", "n", "paper"} <= set(row)
    assert row["mean"] == pytest.approx(0.2) and row["std"] == pytest.approx(0.02**0.5) and row["n"] == 2
    assert row["paper"] == 0.0940 and rows["gmle", "crps"]["mean"] is None  # one seed is not finite
    assert rows["nsac", "fit_seconds"]["mean"] == 1.5 and rows["nsac", "parameters"]["mean"] == 7


def test_the_papers_numbers_are_not_set_beside_another_protocol_and_one_seed_has_no_deviation():
    (row, *_) = table_rows(records({"nsac": [0.1]}, protocol="sound"))
    assert row["paper"] is None and row["std"] is None and row["n"] == 1


def test_differences_are_tested_in_pairs():
    # Seeds differ by much more than methods do, yet `b` is worse by about the same every time; `c` is not.
    told = against_best(records({"a": [1, 2, 3, 4], "b": [1.1, 2.11, 3.1, 4.09], "c": [1.5, 1.6, 3.6, 3.5]}), "crps")
    assert told["a"] is None and told["b"] < 0.01 and told["c"] > 0.05


@pytest.mark.parametrize(("values", "told"), [
    ({"a": [1, 1], "b": [1, 1]}, {"a": None, "b": 1.0}),  # no difference
    ({"a": [1, 2], "b": [2, 3]}, {"a": None, "b": 0.0}),  # the same difference every time
    ({"a": [1], "b": [2]}, {"a": None}),  # nothing to test with one seed
    ({"a": [1, None], "b": [2, 2]}, {}),  # one alone is not the best of anything
    ({"a": [1, 2]}, {}),
])  # fmt: skip
def test_what_cannot_be_tested_is_left_out(values, told):
    assert against_best(records(values), "crps") == told


def test_coverage_is_best_near_its_level_and_width_has_no_best():
    values = {"a": [0.99, 0.98], "b": [0.91, 0.89]}
    assert next(iter(against_best(records(values, "coverage_90_calibrated"), "coverage_90_calibrated"))) == "b"
    assert against_best(records(values, "interpolation_width_90_calibrated"), "interpolation_width_90_calibrated") == {}


def test_records_of_other_numbers_are_left_out(tmp_path):
    store = Store(tmp_path)
    for config in (run_config("boston", "paper", "nsac", 0), tiny("boston", "paper", "nsac")):
        facts = {name: getattr(config, name) for name in ("task", "protocol", "method", "seed", "key")}
        store.write(a_record(**facts, config=config.to_dict()))
    store.write(a_record(method="gone"))
    found, stale = current_records(store)
    assert [record.key for record in found] == [run_config("boston", "paper", "nsac", 0).key] and len(stale) == 2
