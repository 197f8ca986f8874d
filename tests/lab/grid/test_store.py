import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nsac.lab.grid.store import RecordError, Store, config_key, finite, mlflow_logger
from support.runs import a_record


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "new" / "records")


def test_a_written_record_is_read_again_with_none_for_what_is_not_finite(store):
    record = a_record()
    store.write(record)
    assert store.read(record.name) == dataclasses.replace(record, metrics={"mse": 0.1, "nll": None})


def test_a_store_contains_what_was_written(store):
    record = a_record()
    assert record.name not in store and store.write(record) and record.name in store


def test_writing_leaves_no_temporary_file(store):
    store.write(a_record())
    assert [path.name for path in store.folder.iterdir()] == [f"{a_record().name}.json"]


def test_an_existing_record_is_kept(store):
    assert store.write(a_record())
    assert not store.write(a_record(parameters=8))
    assert store.read(a_record().name).parameters == 7


def test_records_are_sorted_by_name(store):
    for seed in (1, 0):
        store.write(a_record(seed))
    assert [record.seed for record in store.records()] == [0, 1]


def test_records_of_names_that_do_not_exist_are_left_out(store):
    store.write(a_record())
    assert [record.name for record in store.records(["other", a_record().name])] == [a_record().name]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:-40], "not JSON"),
        (lambda text: text.replace('"mse": 0.1', '"mse": 0.2'), "checksum"),
        (lambda text: text.replace("nsac-record", "other"), "does not have the format"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version 2"),
        (lambda text: "[]", "does not have the format"),
        (lambda text: json.dumps({**json.loads(text), "more": 1}), "checksum"),
    ],
)
def test_a_damaged_record_is_a_named_error_with_a_fix(store, damage, reason):
    store.write(a_record())
    path = store.folder / f"{a_record().name}.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=reason) as error:
        store.records()
    assert str(path) in str(error.value) and "elete" in str(error.value)


def test_a_record_under_another_name_is_refused(store):
    store.write(a_record())
    other = store.folder / f"{a_record(1).name}.json"
    (store.folder / f"{a_record().name}.json").rename(other)
    with pytest.raises(RecordError, match="does not match its file name"):
        store.records()


def test_a_missing_record_is_an_error_with_the_command_that_creates_it(store):
    with pytest.raises(RecordError, match="cannot be read.*`nsac bench run`"):
        store.read("none")


def test_a_key_does_not_depend_on_the_order_of_a_configuration():
    assert config_key({"a": 1, "b": 2}) == config_key({"b": 2, "a": 1}) != config_key({"a": 1, "b": 3})


def test_a_file_is_refused_as_a_folder_of_records(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is a file"):
        Store(tmp_path / "file")


def test_numbers_that_are_not_finite_become_none_at_any_depth():
    assert finite({"a": [1.0, float("nan")], "b": {"c": float("inf")}}) == {"a": [1.0, None], "b": {"c": None}}


LOGGING = """
import sys; sys.path[:0] = sys.argv[1:]
import mlflow
from nsac.lab.grid.store import EXPERIMENT, mlflow_logger
from support.runs import a_record
log = mlflow_logger()
record = a_record(metrics={"mse": 0.5, "nll": None})
print(log(record), mlflow_logger()(record), log(a_record(1)))
condition = "tags.`nsac.record` = '%s'" % record.name
(found,) = mlflow.search_runs(
    experiment_names=[EXPERIMENT], filter_string=condition, output_format="list"
)
print(found.data.metrics["mse"], found.data.params["steps"], found.data.metrics["seconds_fit_cpu"])
"""


@pytest.mark.slow
def test_a_record_is_logged_once(tmp_path):
    pytest.importorskip("mlflow", reason="the extra `track` has mlflow")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(LOGGING), Path(__file__).parents[2]],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
        env={**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/runs.db"},
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False", "True", "0.5", "3", "1.5"], done.stderr[-2000:]


def test_a_missing_mlflow_is_an_error_with_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"pip install 'nsac\[track\]'"):
        mlflow_logger()
