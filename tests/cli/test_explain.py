import json

import numpy as np
import pandas as pd
import pytest

from cli.test_model import done, refused
from nsac import NSACForecaster, NSACRegressor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain")
    random = np.random.default_rng(0)
    table = pd.DataFrame({"a": random.normal(size=80), "b": random.choice(["u", "v"], 80)})
    y = pd.Series(table["a"] + (table["b"] == "u"), name="price")
    NSACRegressor(random_state=0, members=2, training={"max_steps": 5}).fit(table, y).save(folder / "model")
    NSACRegressor("ridge", random_state=0).fit(table, y).save(folder / "ridge")
    table.to_csv(folder / "table.csv", index=False)
    table.assign(price=y).to_csv(folder / "known.csv", index=False)
    series = pd.DataFrame({"date": pd.date_range("2024", periods=90, freq="h"), "y": random.normal(size=90)})
    settings = {"members": 1, "random_state": 0, "training": {"max_steps": 5}}
    NSACForecaster(2, 6, **settings).fit(series).save(folder / "forecaster")
    series.to_csv(folder / "series.csv", index=False)
    return folder


def test_a_page_of_a_table_is_written(folder, tmp_path):
    out = tmp_path / "page.html"
    result = done("explain", folder / "model", folder / "table.csv", "--rows", "3,5-6", "--out", out, "--json")
    facts = json.loads(result.stdout)
    assert facts["rows"] == ["3", "5", "6"] and facts["bytes"] == out.stat().st_size > 1000
    assert sum(facts["shares"].values()) == pytest.approx(1, abs=1e-3) and "How price is predicted" in out.read_text()


def test_a_page_of_a_series_is_written(folder, tmp_path):
    out = tmp_path / "page.html"
    assert "1 rows" in done("explain", folder / "forecaster", folder / "series.csv", "--out", out).stdout
    assert "How y is predicted" in out.read_text()


def test_a_row_that_does_not_exist_is_refused(folder, tmp_path):
    for model, data, rows in (("model", "table.csv", 80), ("forecaster", "series.csv", 90)):
        line = refused("explain", folder / model, folder / data, "--rows", rows, "--out", tmp_path / "page.html")
        assert f"`rows` must be row numbers from 0 to {rows - 1}. Got {rows} instead." in line
    assert not list(tmp_path.iterdir())


def test_rows_must_be_numbers(folder, tmp_path):
    line = refused("explain", folder / "model", folder / "table.csv", "--rows", "x", "--out", tmp_path / "page.html")
    assert "`--rows` must be a range or a comma-separated list" in line


def test_a_model_without_a_circuit_is_refused(folder, tmp_path):
    line = refused("explain", folder / "ridge", folder / "table.csv", "--out", tmp_path / "page.html")
    assert "must contain a circuit" in line


def test_an_output_file_is_needed(folder):
    assert "Pass `--out page.html`" in refused("explain", folder / "model", folder / "table.csv")


def test_lesions_are_listed_and_a_pruned_model_is_used(folder, tmp_path):
    table, pruned = tmp_path / "lesions.csv", tmp_path / "pruned"
    result = done(
        "explain", folder / "model", folder / "known.csv", "--lesions", table, "--prune", pruned, "--json"
    )  # fmt: skip
    facts, study = json.loads(result.stdout), pd.read_csv(table)
    assert len(study) == facts["neurons"] and facts["largest"][0]["layer"] == study["layer"][0]
    assert 0 < facts["silenced"] <= facts["circuit_neurons"]
    assert len(done("predict", pruned, folder / "table.csv").stdout.splitlines()) == 81


def test_lesions_of_a_series_are_listed(folder, tmp_path):
    result = done("explain", folder / "forecaster", folder / "series.csv", "--lesions", tmp_path / "lesions.csv")
    assert "neurons, of which the 10 that matter most are above" in " ".join(result.stdout.split())


def test_lesions_need_the_target(folder, tmp_path):
    line = refused("explain", folder / "model", folder / "table.csv", "--lesions", tmp_path / "lesions.csv")
    assert "has no column 'price'" in line
