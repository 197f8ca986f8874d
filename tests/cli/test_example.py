import json

import pandas as pd
import pytest

from support.cli import call

TABLES = {"diabetes.csv": 442, "diabetes-train.csv": 354, "diabetes-new.csv": 88}


def test_the_table_is_written_whole_and_split(tmp_path):
    call("example", "tables", "--out", tmp_path)
    frames = {path.name: pd.read_csv(path) for path in tmp_path.iterdir()}
    assert {name: len(frame) for name, frame in frames.items()} == TABLES
    split = pd.concat([frames["diabetes-train.csv"], frames["diabetes-new.csv"]])
    columns = list(split)
    pd.testing.assert_frame_equal(
        split.sort_values(columns, ignore_index=True), frames["diabetes.csv"].sort_values(columns, ignore_index=True)
    )
    assert columns[-1] == "progression"


def test_the_series_is_weekly_and_has_its_missing_weeks(tmp_path):
    call("example", "series", "--out", tmp_path)
    frame = pd.read_csv(tmp_path / "co2.csv", parse_dates=["date"])
    assert list(frame) == ["date", "co2"] and len(frame) == 2284 and frame["co2"].isna().sum() == 59
    assert set(frame["date"].diff().dropna().dt.days) == {7}


def test_the_folder_is_made_and_the_next_command_names_it(tmp_path):
    folder = tmp_path / "my data"
    output = call("example", "series", "--out", folder).output
    assert f"{folder / 'co2.csv'}: 2284 rows" in output
    assert f"nsac fit '{folder / 'co2.csv'}' --target co2 --time date --horizon 12" in output


def test_files_and_the_next_command_are_also_json(tmp_path):
    facts = json.loads(call("example", "tables", "--out", tmp_path, "--json").stdout)
    assert facts["files"] == {str(tmp_path / name): rows for name, rows in TABLES.items()}
    assert facts["next"][0].endswith(f"--target progression --out {tmp_path / 'model'}")


def test_the_same_files_may_exist(tmp_path):
    call("example", "series", "--out", tmp_path)
    call("example", "series", "--out", tmp_path)


@pytest.mark.parametrize("existing", list(TABLES))
def test_a_file_of_other_content_is_kept_and_nothing_is_written(tmp_path, existing):
    (tmp_path / existing).write_text("mine")
    output = call("example", "tables", "--out", tmp_path, code=2).output
    assert f"{existing} exists and has other content" in output
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    assert "`--out` must be a place that can be written" in call(
        "example", "series", "--out", tmp_path / "file", code=2
    ).output.replace("\n", " ")


def test_an_unknown_example_is_one_line():
    assert "must be one of tables, series. Got 'images' instead" in call("example", "images", code=2).output
