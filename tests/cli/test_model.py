import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import nsac
from nsac.cli import tables
from nsac.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments) -> str:
    """Exit code 2 and one line, besides notes."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Note: ")]
    assert len(lines) == 1 and lines[0].startswith("Error: "), result.output
    return lines[0]


def table(n=150, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": [f"part {i}" for i in range(n)], "x": rng.normal(size=n), "zip": rng.choice([7, 8], n)})
    frame["kind"] = rng.choice(["a", "b"], n)
    frame["y"] = 5 + 3 * frame["x"] + (frame["kind"] == "a") + 0.1 * rng.normal(size=n)
    frame["z"] = -frame["y"]
    frame.loc[::9, "x"] = np.nan
    return frame


def hours(n=220, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    wave = np.sin(2 * np.pi * np.arange(n) / 24)
    dates = pd.date_range("2024-01-01", periods=n, freq="h")
    return pd.DataFrame({"date": dates, "a": rng.normal(size=n), "OT": wave + 0.1 * rng.normal(size=n)})


QUICK = ("--steps", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file to fit, one to predict, and a model of one target."""
    folder = tmp_path_factory.mktemp("cli")
    table().to_csv(folder / "train.csv", index=False)
    table(40, seed=1).to_csv(folder / "test.csv", index=False)
    fitted = done(
        "fit", folder / "train.csv", "--target", "y", "--drop", "z", "--drop", "id", "--category", "zip",
        "--out", folder / "model", "--json", *QUICK,
    )  # fmt: skip
    report = json.loads(fitted.stdout)
    assert report["class"] == "NSACRegressor" and report["rows"] == 150 and report["targets"] == ["y"]
    assert report["columns"] == ["x", "zip", "kind"] and report["bytes"] > 1000
    return folder


def test_predictions_are_the_estimators(folder, tmp_path):
    out = tmp_path / "new folder" / "p.csv"
    done("predict", folder / "model", folder / "test.csv", "--out", out, "--coverage", "0.8")
    p = pd.read_csv(out)
    assert list(p.columns) == ["id", "z", "mean", "std", "aleatoric", "epistemic", "lower_80", "upper_80"]
    X = table(40, seed=1).astype({"zip": str})[["x", "zip", "kind"]]
    mean, std = nsac.load(folder / "model").predict(X, return_std=True)
    np.testing.assert_allclose(p["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(p["std"] ** 2, p["aleatoric"] + p["epistemic"])
    assert ((p["lower_80"] < p["mean"]) & (p["mean"] < p["upper_80"])).all() and list(p["id"])[1] == "part 1"


def test_the_target_may_be_absent_and_the_order_of_columns_another(folder, tmp_path):
    frame = table(40, seed=1)
    frame[["kind", "zip", "x"]].to_parquet(tmp_path / "new.parquet")
    done("predict", folder / "model", tmp_path / "new.parquet", "--out", tmp_path / "p.parquet")
    done("predict", folder / "model", folder / "test.csv", "--out", tmp_path / "p.csv.gz")
    assert (tmp_path / "p.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    ours, theirs = pd.read_parquet(tmp_path / "p.parquet"), pd.read_csv(tmp_path / "p.csv.gz")
    np.testing.assert_allclose(ours["mean"], theirs["mean"], rtol=1e-9)
    assert done("predict", folder / "model", folder / "test.csv").stdout.startswith("id,z,mean,std")


def test_the_same_seed_gives_the_same_bytes(folder, tmp_path):
    options = ("--target", "y", "--drop", "z", "--drop", "id", "--category", "zip", "--out", tmp_path / "m", *QUICK)
    done("fit", folder / "train.csv", *options)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "m" / name).read_bytes() == (folder / "model" / name).read_bytes()


def test_several_targets_and_rows_without_one(tmp_path):
    frame = table(60)
    frame.loc[3, "z"] = np.nan
    frame.drop(columns="id").to_csv(tmp_path / "t.csv", index=False)
    fitted = done("fit", tmp_path / "t.csv", "--target", "y", "--target", "z", "--out", tmp_path / "m", *QUICK)
    assert "left out 1 rows without a target" in fitted.stderr
    p = done("predict", tmp_path / "m", tmp_path / "t.csv", "--out", tmp_path / "p.csv") and pd.read_csv(
        tmp_path / "p.csv"
    )
    assert {"mean_y", "mean_z", "lower_90_z"} <= set(p.columns) and len(p) == 60
    scores = json.loads(done("evaluate", tmp_path / "m", tmp_path / "t.csv", "--json").stdout)
    assert set(scores) == {"y", "z"} and scores["z"]["values"] == 59


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A file with groups and weights, and a model of it."""
    folder, frame = tmp_path_factory.mktemp("grouped"), table().drop(columns=["id", "z"])
    frame["machine"] = [f"0{k}" for k in np.arange(len(frame)) // 15]
    frame["trust"] = np.where(np.arange(len(frame)) % 2, 1.0, 3.0)
    frame.to_csv(folder / "train.csv", index=False)
    options = ("--group", "machine", "--weight", "trust", "--effort", "fast", "--target-range", "-100", "none")
    fitted = done("fit", folder / "train.csv", "--target", "y", *options, "--out", folder / "model", "--json", *QUICK)
    assert json.loads(fitted.stdout)["columns"] == ["x", "zip", "kind"]
    return folder


def test_groups_and_weights_are_passed_to_fit_and_are_not_inputs(grouped):
    frame = pd.read_csv(grouped / "train.csv")
    expected = nsac.NSACRegressor(effort="fast", target_range=(-100, None), training={"max_steps": 3}, random_state=0)
    expected.fit(frame[["x", "zip", "kind"]], frame["y"], sample_weight=frame["trust"], groups=frame["machine"])
    loaded: Any = nsac.load(grouped / "model")
    rows = frame[["x", "zip", "kind"]].head()
    assert list(loaded.feature_names_in_) == list(rows.columns)
    assert np.array_equal(loaded.predict(rows), expected.predict(rows))
    assert loaded.get_params()["effort"] == "fast" and loaded.get_params()["target_range"] == [-100, None]


def test_a_model_of_groups_predicts_and_evaluates_files_with_and_without_them(grouped, tmp_path):
    new = pd.read_csv(grouped / "train.csv", dtype={"machine": str}).head(20)
    new.to_csv(tmp_path / "with.csv", index=False)
    new.drop(columns=["machine", "trust"]).to_csv(tmp_path / "without.csv", index=False)
    for name in ("with", "without"):
        done("predict", grouped / "model", tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}-out.csv")
    written = pd.read_csv(tmp_path / "with-out.csv", dtype=str)
    assert list(written["machine"]) == list(new["machine"])
    assert written.drop(columns=["machine", "trust"]).equals(pd.read_csv(tmp_path / "without-out.csv", dtype=str))
    done("evaluate", grouped / "model", tmp_path / "without.csv")
    done("evaluate", grouped / "model", tmp_path / "with.csv", "--out", tmp_path / "page.html")
    assert "Groups in training: machine" in (tmp_path / "page.html").read_text()


def test_rows_that_look_grouped_are_noted_if_no_group_is_named(tmp_path):
    frame = table(60).drop(columns=["id", "z"]).assign(machine=np.repeat([*"dbac"], 15))
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--target", "y", "--effort", "fast", *QUICK)
    assert "Rows look grouped: column 'machine'" in done(*fit, "--out", tmp_path / "m").stderr
    assert "look grouped" not in done(*fit, "--group", "machine", "--out", tmp_path / "g").stderr


@pytest.mark.slow  # processes that import torch
def test_members_trained_at_the_same_time_are_the_same(tmp_path):
    table(60).drop(columns=["id", "z"]).to_csv(tmp_path / "t.csv", index=False)
    for jobs in (1, 2):
        fit = ("fit", tmp_path / "t.csv", "--target", "y", "--effort", "fast", *QUICK, "--n-jobs", jobs)
        done(*fit, "--out", tmp_path / f"{jobs}")
        done("predict", tmp_path / f"{jobs}", tmp_path / "t.csv", "--out", tmp_path / f"{jobs}.csv")
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()


def test_a_row_without_a_group_is_refused_by_its_number_in_the_file(tmp_path):
    frame = table(30).drop(columns=["id", "z"]).assign(machine=[*"abcde"] * 6)
    frame.loc[3, "y"] = np.nan
    frame.loc[8, "machine"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    message = refused("fit", tmp_path / "t.csv", "--target", "y", "--group", "machine", "--out", tmp_path / "m", *QUICK)
    assert "row 9 below the header has no group: its 'machine' is missing." in message


def test_rows_outside_the_training_range_are_counted_in_a_note(grouped, tmp_path):
    new = pd.read_csv(grouped / "train.csv").head(20)
    new.to_csv(tmp_path / "near.csv", index=False)
    new.loc[[2, 5], "x"] = 1000.0
    new.to_csv(tmp_path / "far.csv", index=False)
    assert "outside the range" not in done("predict", grouped / "model", tmp_path / "near.csv").stderr
    assert "2 of 20 rows have a number notably outside the range" in (
        done("predict", grouped / "model", tmp_path / "far.csv").stderr
    )


def test_the_baseline_has_the_unit_of_the_target_also_with_a_link(grouped):
    scores = json.loads(done("evaluate", grouped / "model", grouped / "train.csv", "--json").stdout)["y"]["naive"]
    assert nsac.load(grouped / "model").link_.name != "identity"  # pyright: ignore
    assert scores["rmse"] == pytest.approx(pd.read_csv(grouped / "train.csv")["y"].std(ddof=0))


def test_evaluate_prints_scores_beside_a_baseline_and_writes_one_page(folder, tmp_path):
    page = tmp_path / "report.html"
    shown = done("evaluate", folder / "model", folder / "test.csv", "--out", page)
    for word in ("RMSE", "CRPS", "the training mean", "intervals covered"):
        assert word in " ".join(shown.output.split())
    text = page.read_text()
    assert text.count("<img ") == 3 and "reliability" in text.lower() and "the training mean" in text
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", text)
    scores = json.loads(done("evaluate", folder / "model", folder / "test.csv", "--json").stdout)["y"]
    y, p = table(40, seed=1)["y"], pd.read_csv(folder / "test.csv")
    own = nsac.load(folder / "model").predict(p.astype({"zip": str})[["x", "zip", "kind"]])
    assert scores["model"]["rmse"] == pytest.approx(np.sqrt(((own - y) ** 2).mean()))
    assert 0 <= scores["model"]["coverage_90"] <= 1 and scores["naive"]["rmse"] > 0 and scores["values"] == 40


def test_an_existing_model_is_replaced_only_with_force(folder, tmp_path):
    model = shutil.copytree(folder / "model", tmp_path / "model")
    before = (model / "model.safetensors").read_bytes()
    options = ("fit", folder / "train.csv", "--target", "y", "--out", model, "--drop", "id", *QUICK)
    assert "--force" in refused(*options) and (model / "model.safetensors").read_bytes() == before
    done(*options, "--force")
    assert (model / "model.safetensors").read_bytes() != before
    (model / "thesis.txt").write_text("years of work")
    assert "is not a model" in refused(*options, "--force") and (model / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--target"),
        (("--target", "yy"), "no column 'yy'. Did you mean 'y'?"),
        (("--target", "y", "--drop", "ID"), "no column 'ID'. Did you mean 'id'?"),
        (("--target", "kind"), "Classification is not supported"),
        (("--target", "y", "--drop", "y"), "`--drop` must not name the target"),
        (("--target", "y", "--category", "y"), "`--category` must not name the target"),
        (("--target", "y", "--time", "id"), "--horizon"),
        (("--target", "y", "--horizon", "3"), "--time"),
        (("--target", "y", "--series", "id"), "--time"),
        (("--target", "y", "--drop", "id", "--method", "magic"), "'magic'"),
        (("--target", "y"), "Column 'id' must have categories that repeat"),
        (("--target", "y", "--group", "y"), "`--group` must not name the target"),
        (("--target", "y", "--weight", "Zip"), "no column 'Zip'. Did you mean 'zip'?"),
        (("--target", "y", "--drop", "id", "--group", "kind"), "`groups` must have at least 3 different values"),
        (("--target", "y", "--weight", "x"), "row 1 below the header. Correct it, or remove the row"),
        (("--target", "y", "--target-range", "0", "much"), "two numbers, or none. Got 'much'"),
        (("--target", "y", "--drop", "id", "--target-range", "3", "1"), "a lower and a larger upper bound"),
        (("--target", "y", "--drop", "id", "--effort", "heroic"), "`effort` must be one of"),
        (("--target", "y", "--n-jobs", "0"), "`--n-jobs` must be above 0"),
        (("--target", "y", "--time", "id", "--horizon", "2", "--group", "kind"), "`--group` is for tables"),
        (("--target", "y", "--time", "id", "--horizon", "2", "--weight", "x"), "`--weight` is for tables"),
        (("--target", "y", "--time", "id", "--horizon", "2", "--effort", "best"), "`--effort` is for tables"),
        (("--target", "y", "--time", "id", "--horizon", "2", "--n-jobs", "2"), "`--n-jobs` is for tables"),
        (("--target", "y", "--time", "id", "--horizon", "2", "--target-range", "0", "1"), "`--target-range` is for"),
    ],
)
def test_what_cannot_be_fitted_is_one_line_and_leaves_nothing(folder, tmp_path, options, message):
    assert message in refused("fit", folder / "train.csv", *options, "--out", tmp_path / "m", *QUICK)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("x,y\n", "no rows"),
        ("x,y\n1,2\n", "minimum of 5"),
        ("x,y\n" + "1,2\n" * 30, "must vary"),
        ("x,y\n" + "".join(f",{i}\n" for i in range(30)), "Column 'x'"),
        ("y\n1\n2\n3\n", "no columns but the target"),
        ("x,y\n1,\n2,\n", "no row with a known target"),
        (
            "x,y\n" + "".join(f"{i},{i}\n" for i in range(20)) + "4,abc\n",
            "'y' is numeric, but row 21 below the header",
        ),
        (b"\x00\x01\x02PK", "binary data"),
        ("x,y\n" + "".join(f"{i},{i}\n" for i in range(20)) + "4,1e300\n", "y contains a number above 1e+100"),
        ("x,y\n" + "".join(f"{i},{i}\n" for i in range(20)) + "4,inf\n", "y contains infinity"),
        ("x,y\n" + "".join(f"{i},{i}e-300\n" for i in range(20)), "must vary by at least 1e-100"),
        ("x,y\n" + "".join(f"{i}e120,{i}\n" for i in range(20)), "Column 'x' must hold numbers of at most 1e+100"),
        ("x,y\n" + "".join(f"0{i}/02/2024,{i}\n" for i in range(1, 9)), "1 February 2024 or 2 January 2024"),
        ("x,y\n" + "".join(f"{i},2024-01-0{i}\n" for i in range(1, 9)), "It holds dates"),
    ],
)
def test_files_that_cannot_be_fitted_are_one_line_and_leave_nothing(tmp_path, content, message):
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused("fit", path, "--target", "y", "--out", tmp_path / "m", *QUICK)
    assert [file.name for file in tmp_path.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("inf,1", "Column 'x' must hold finite numbers, or NaN where one is missing. Got infinity in row 22 below"),
        ("1,inf", "y contains infinity: column 'y', row 22 below the header (1 such values)"),
        ("1,a\n" * 30 + "1,b", "must hold numbers. Got 'a' in row 22 below the header (31 such values)"),
    ],
)
def test_a_row_is_counted_as_in_the_file_although_others_are_left_out(tmp_path, bad, message):
    (tmp_path / "t.csv").write_text("x,y\n0,\n" + "".join(f"{i},{i}\n" for i in range(20)) + f"{bad}\n")
    assert message in refused("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK)


def test_a_row_to_predict_is_counted_as_in_the_file(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "CHUNK_ROWS", 4)
    frame = table(10)
    frame.loc[6, "x"] = np.inf
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert "Got infinity in row 7 below the header" in refused("predict", folder / "model", tmp_path / "new.csv")


def test_wrong_files_to_predict_are_one_line_and_leave_nothing(folder, tmp_path):
    table(5)[["x", "zip"]].rename(columns={"x": "X"}).to_csv(tmp_path / "n.csv", index=False)
    out = ("--out", tmp_path / "p.csv")
    assert "no column 'x'" in refused("predict", folder / "model", tmp_path / "n.csv", *out)
    assert "no such folder" in refused("predict", tmp_path / "nothing", folder / "test.csv", *out)
    assert "--coverage" in refused("predict", folder / "model", folder / "test.csv", "--coverage", "1.5", *out)
    table(5)[["x", "zip", "kind"]].to_csv(tmp_path / "no_y.csv", index=False)
    message = refused("evaluate", folder / "model", tmp_path / "no_y.csv", "--out", tmp_path / "r.html")
    assert "no column 'y', the target of the model" in message and "Did you mean" not in message
    assert "--to" in refused("export", folder / "model", "--to", "excel")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["n.csv", "no_y.csv"]


def test_columns_that_are_no_inputs_are_written_as_they_are(folder, tmp_path):
    frame = table(3, seed=1).drop(columns=["id", "z", "y"])
    frame.insert(0, "number", ["12345678901234567", "00042", "NA"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    rows = done("predict", folder / "model", tmp_path / "new.csv").stdout.splitlines()
    assert [row.split(",")[0] for row in rows] == ["number", "12345678901234567", "00042", "NA"]


def test_a_column_with_the_name_of_a_prediction_is_renamed_with_a_note(folder, tmp_path):
    table(3, seed=1).assign(mean=["a", "b", "c"], mean_file=7).to_csv(tmp_path / "new.csv", index=False)
    shown = done("predict", folder / "model", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    p = pd.read_csv(tmp_path / "p.csv")
    assert p["mean_file_file"].tolist() == ["a", "b", "c"] and p["mean_file"].tolist() == [7, 7, 7]
    assert (tmp_path / "p.csv").read_text().splitlines()[0].split(",").count("mean") == 1
    assert "column 'mean' is written as 'mean_file_file'" in shown.stderr


def test_several_coverages_are_several_intervals(folder):
    options = ("--coverage", "0.5", "--coverage", "0.9", "--coverage", "0.5")
    header = done("predict", folder / "model", folder / "test.csv", *options).stdout.splitlines()[0]
    assert header.split(",")[-4:] == ["lower_50", "upper_50", "lower_90", "upper_90"]


def test_rows_that_evaluate_leaves_out_are_reported(folder, tmp_path):
    frame = table(10, seed=1)
    frame.loc[3, "y"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "left out 1 rows without a value of 'y'" in done("evaluate", folder / "model", tmp_path / "t.csv").stderr
    frame.loc[3, "y"] = np.inf
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "left out 1 rows whose 'y' is infinite" in done("evaluate", folder / "model", tmp_path / "t.csv").stderr
    frame.loc[3, "y"] = 1e300
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert "Column 'y' must hold numbers of at most" in refused("evaluate", folder / "model", tmp_path / "t.csv")


def test_a_category_of_numbers_has_categories(folder):
    columns = nsac.load(folder / "model").columns_
    assert columns.names[1] == "zip" and sorted(columns.categories[1]) == ["7", "8"]


def test_categories_may_be_numbers_and_text(tmp_path):
    lines = [f"{i % 7},{['1', '2', '3', '4A'][i % 4]},{i % 5}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x,k,y", *lines]))
    options = ("--target", "y", "--out", tmp_path / "m", *QUICK)
    assert "--category k" in refused("fit", tmp_path / "t.csv", *options)
    assert "k (4)" in done("fit", tmp_path / "t.csv", *options, "--category", "k").stderr
    assert sorted(nsac.load(tmp_path / "m").columns_.categories[1]) == ["1", "2", "3", "4A"]


def test_separators_mean_in_prediction_what_they_meant_in_training(tmp_path):
    lines = [f"{1_000_000 + 1000 * i:,};{i % 5}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["size;y", "900,500;1", *lines]))
    done("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK)
    (tmp_path / "new.csv").write_text("size;k\n900,500;1\n")  # alone it would be a decimal comma
    (tmp_path / "same.csv").write_text("size,k\n900500,1\n")
    one, same = (done("predict", tmp_path / "m", tmp_path / name).stdout for name in ("new.csv", "same.csv"))
    assert one == same


@pytest.mark.slow  # an ensemble of 8 members
def test_categories_of_numbers_are_learned(tmp_path):
    rng = np.random.default_rng(0)
    effects = dict(zip(rng.choice(90_000, 40, replace=False) + 10_000, rng.normal(scale=3.5, size=40), strict=True))
    frame = pd.DataFrame({"x": rng.normal(size=1400), "zip": rng.choice(list(effects), 1400)})
    frame["y"] = frame["x"] + frame["zip"].map(effects) + 0.05 * rng.normal(size=1400)
    frame[:1000].to_csv(tmp_path / "train.csv", index=False)
    frame[1000:].to_csv(tmp_path / "test.csv", index=False)
    done("fit", tmp_path / "train.csv", "--target", "y", "--category", "zip", "--out", tmp_path / "m", "--steps", "200")
    scores = json.loads(done("evaluate", tmp_path / "m", tmp_path / "test.csv", "--json").stdout)["y"]
    assert scores["naive"]["rmse"] > 3 and scores["model"]["rmse"] < 0.5


def test_dates_and_separators_are_read_and_reported(tmp_path):
    dates = pd.date_range("2024-01-01", periods=40, freq="9D")
    lines = [f'{date:%d.%m.%Y},"{1000 + i:,}",{i % 5}' for i, date in enumerate(dates)]
    (tmp_path / "t.csv").write_text("\n".join(["when,size,y", *lines]))
    shown = done("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK).stderr
    assert (
        "Column 'when' holds dates such as '01.01.2024'. Its features: year, month, day, weekday, days since" in shown
    )
    assert "Column 'size' holds numbers with separators: '1,000' is read as 1000." in shown
    (tmp_path / "new.csv").write_text('when,size\n02.03.2024,"1,005"\n')  # alone it would be ambiguous
    (tmp_path / "same.csv").write_text("when,size\n2024-03-02,1005\n")
    one, same = (done("predict", tmp_path / "m", tmp_path / name).stdout for name in ("new.csv", "same.csv"))
    assert one == same
    assert "--dayfirst" in done("fit", "--help").output


def test_the_order_of_day_and_month_may_be_given(tmp_path):
    (tmp_path / "t.csv").write_text("when,y\n" + "".join(f"0{i % 9 + 1}/02/2024,{i % 5}\n" for i in range(40)))
    done("fit", tmp_path / "t.csv", "--target", "y", "--no-dayfirst", "--out", tmp_path / "m", *QUICK)
    assert nsac.load(tmp_path / "m").columns_.dates[0].first == "2024-01-02"


def test_an_order_of_day_and_month_that_no_date_depends_on_is_a_note(tmp_path):
    (tmp_path / "t.csv").write_text("when,y\n" + "".join(f"2024-02-0{i % 9 + 1},{i % 5}\n" for i in range(40)))
    shown = done("fit", tmp_path / "t.csv", "--target", "y", "--dayfirst", "--out", tmp_path / "m", *QUICK).stderr
    assert "Note: `dayfirst=True` (`--dayfirst`) has no effect: no column of the table has dates such as" in shown


def test_names_of_any_characters_are_printed_and_plotted_as_they_are(tmp_path):
    place = tmp_path / "[" / "b]"  # "[/b]" is markup of rich
    place.mkdir(parents=True)
    frame = table(60)[["x", "y"]].rename(columns={"x": "a[/i] $\\frac$", "y": "price $x_{$"})
    frame.to_csv(place / "t.csv", index=False)
    fitted = done("fit", place / "t.csv", "--target", "price $x_{$", "--out", place / "m", *QUICK)
    shown = done("evaluate", place / "m", place / "t.csv", "--out", place / "r.html")
    assert "[/b]" in fitted.stdout and "price $x_{$" in shown.stdout and "[/b]" in shown.stderr
    assert "a[/i] $\\frac$" in refused("fit", place / "t.csv", "--target", "z", "--out", place / "n")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("out", ["x.csv", "link.csv", "model/config.json"])
def test_what_a_command_reads_is_not_replaced(folder, tmp_path, command, out):
    data, model = (
        shutil.copy(folder / "test.csv", tmp_path / "x.csv"),
        shutil.copytree(folder / "model", tmp_path / "model"),
    )
    (tmp_path / "link.csv").symlink_to(data)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "must not replace" in refused(command, model, data, "--out", tmp_path / out)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


COMMANDS = {
    "fit": ("fit", "train.csv", "--target", "y"),
    "predict": ("predict", "model", "test.csv"),
    "evaluate": ("evaluate", "model", "test.csv"),
    "export": ("export", "model"),
    "demo": ("demo",),
    "bench run": ("bench", "run", "boston"),
    "bench study": ("bench", "study"),
    "bench frozen": ("bench", "frozen"),
    "bench growth": ("bench", "growth"),
    "bench shifts": ("bench", "shifts", "--seeds", "0"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_cannot_be_written_is_one_line_before_any_work(folder, tmp_path, monkeypatch, command):
    """Any work would call one of the functions that are replaced here, and fail with another message."""
    monkeypatch.chdir(folder)
    for name in ("nsac.cli.reading.read_table", "nsac.estimators.load", "nsac.training.loop._launch"):
        monkeypatch.setattr(name, None)
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "out.md"
    assert "`--out` must be a place that can be written" in refused(*COMMANDS[command], "--out", place)


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.slow  # a process that imports torch
def test_an_interrupted_fit_tells_that_nothing_was_written(folder, tmp_path):
    command = [sys.executable, "-c", "from nsac.cli import main; main()", "fit", folder / "train.csv", "--target", "y"]
    command += ["--drop", "id", "--out", tmp_path / "m", "--steps", "50000"]
    heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heeded)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(8)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    line = f"Interrupted. Nothing was written to {tmp_path / 'm'}. The same command starts again."
    assert process.returncode == 130 and error.splitlines()[-1] == line and not list(tmp_path.iterdir())


def test_verbose_shows_where_an_error_comes_from(tmp_path):
    result = run("predict", tmp_path / "nothing", tmp_path / "nothing.csv", "--verbose")
    assert result.exit_code == 2 and "Traceback" in result.output


def test_too_few_rows_of_calibration_are_a_note(folder, tmp_path):
    result = done("predict", folder / "model", folder / "test.csv", "--out", tmp_path / "p.csv", "--coverage", "0.999")
    assert result.stderr.count("too few") == 1


def test_infinite_targets_are_left_out_of_an_evaluation_with_a_note(folder, tmp_path):
    frame = pd.read_csv(folder / "test.csv")
    frame.loc[[3, 5], "y"] = np.inf
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = done("evaluate", folder / "model", tmp_path / "t.csv", "--json")
    assert "left out 2 rows whose 'y' is infinite" in result.stderr
    assert json.loads(result.stdout)["y"]["values"] == len(frame) - 2


def test_several_coverages_give_several_intervals(folder):
    table = done("predict", folder / "model", folder / "test.csv", "--coverage", 0.5, "--coverage", 0.9).stdout
    assert table.splitlines()[0].endswith("lower_50,upper_50,lower_90,upper_90")


def test_a_forecast_from_a_file(tmp_path):
    frame = hours()
    frame.to_csv(tmp_path / "s.csv", index=False)
    options = (
        "--target",
        "OT",
        "--time",
        "date",
        "--horizon",
        "6",
        "--lookback",
        "24",
        "--out",
        tmp_path / "m",
        *QUICK,
    )
    done("fit", tmp_path / "s.csv", *options)
    done("predict", tmp_path / "m", tmp_path / "s.csv", "--out", tmp_path / "p.csv")
    p = pd.read_csv(tmp_path / "p.csv", parse_dates=["date"])
    assert list(p.columns) == ["date", "mean", "std", "aleatoric", "epistemic", "lower_90", "upper_90"]
    assert p["date"].iloc[0] == frame["date"].iloc[-1] + pd.Timedelta("1h") and len(p) == 6
    page = tmp_path / "r.html"
    shown = done("evaluate", tmp_path / "m", tmp_path / "s.csv", "--out", page)
    assert "the last value" in " ".join(shown.output.split()) and page.read_text().count("<img ") == 4
    assert "no column 'OT'" in refused("predict", tmp_path / "m", _without(tmp_path, frame, "OT"))


def _without(folder, frame, column):
    path = folder / "without.csv"
    frame.drop(columns=column).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_killed_fit_leaves_nothing_half_written(folder, tmp_path):
    command = [sys.executable, "-c", "from nsac.cli import main; main()", "fit", folder / "train.csv", "--target", "y"]
    process = subprocess.Popen([*command, "--drop", "id", "--out", tmp_path / "m", "--steps", "5000"])
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(4)
    process.kill()
    process.wait()
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=150) | st.text('0123456789.,;\n"xyzipkindab-eNA ', max_size=150).map(str.encode))
def test_any_bytes_are_predicted_or_refused_in_one_line(folder, tmp_path, content):
    (tmp_path / "f.csv").write_bytes(content)
    result = run("predict", folder / "model", tmp_path / "f.csv")
    assert result.exit_code == 0 or refused("predict", folder / "model", tmp_path / "f.csv")


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3)), min_size=1, max_size=4), st.booleans())
def test_mutated_files_are_predicted_or_refused_in_one_line(folder, tmp_path, changes, packed):
    content = (folder / "test.csv").read_bytes()
    content = gzip.compress(content) if packed else content
    for place, new in changes:
        place %= len(content)
        content = content[:place] + new + content[place + 1 :]
    (tmp_path / "f.csv").write_bytes(content)
    for command in ("predict", "evaluate"):
        result = run(command, folder / "model", tmp_path / "f.csv")
        assert result.exit_code == 0 or refused(command, folder / "model", tmp_path / "f.csv")


CELLS = st.sampled_from(["1", "2.5", "-3", "", "a", "b", "inf", "1e300", "NA", "True", "2024-01-01", "0"])


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=12), st.sampled_from([(), ("--time", "x")]))
def test_any_table_is_fitted_or_refused_in_one_line(tmp_path, rows, time):
    text = "\n".join(["x,k,y", *(",".join(row) for row in rows * 4)])
    (tmp_path / "f.csv").write_text(text)
    options = ("--target", "y", "--out", tmp_path / "m", "--force", "--steps", "1")
    options += (*time, "--horizon", "2", "--lookback", "3") if time else ()
    result = run("fit", tmp_path / "f.csv", *options)
    if result.exit_code:
        assert "unexpected" not in refused("fit", tmp_path / "f.csv", *options)
    shutil.rmtree(tmp_path / "m", ignore_errors=True)
