import dataclasses
import json

import pytest

from nsac.lab.grid.store import RecordError, Store, commit, config_key, frame, machine
from support.runs import a_record


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "new" / "records")


def test_what_is_written_is_read_and_what_is_not_finite_is_none(store):
    record = a_record()
    assert record.name not in store and store.write(record) and record.name in store
    read = store.read(record.name)
    assert read == dataclasses.replace(record, metrics={"mse": 0.1, "nll": None})
    assert [path.name for path in store.folder.iterdir()] == [f"{record.name}.json"]  # nothing half written is left


def test_the_first_record_of_a_name_stays(store):
    assert store.write(a_record())
    assert not store.write(a_record(parameters=8))
    assert store.read(a_record().name).parameters == 7


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[:-40], "not JSON"),
        (lambda text: text.replace('"mse": 0.1', '"mse": 0.2'), "checksum"),
        (lambda text: text.replace("nsac-record", "other"), "not a record"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version 2"),
        (lambda text: "[]", "not a record"),
        (lambda text: json.dumps({**json.loads(text), "more": 1}), "checksum"),
    ],
)
def test_a_damaged_record_is_a_named_error_with_a_way_out(store, damage, told):
    store.write(a_record())
    path = store.folder / f"{a_record().name}.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=told) as error:
        store.records()
    assert str(path) in str(error.value) and "elete" in str(error.value)


def test_a_record_under_another_name_is_refused(store):
    store.write(a_record())
    other = store.folder / f"{a_record(1).name}.json"
    (store.folder / f"{a_record().name}.json").rename(other)
    with pytest.raises(RecordError, match="not what its name says"):
        store.records()


def test_all_records_are_a_frame(store):
    assert frame(store.records()).empty
    for seed in (1, 0):
        store.write(a_record(seed))
    table = frame(store.records())
    assert list(table["seed"]) == [0, 1] and list(table["mse"]) == [0.1, 1.1] and table["nll"].isna().all()
    assert list(table["seconds_fit_cpu"]) == [1.5, 1.5]


def test_a_key_does_not_depend_on_the_order_of_a_config():
    assert config_key({"a": 1, "b": 2}) == config_key({"b": 2, "a": 1}) != config_key({"a": 1, "b": 3})


def test_a_file_is_no_folder_of_records(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is a file"):
        Store(tmp_path / "file")


def test_a_machine_is_described_without_naming_it():
    assert set(machine()) <= {"system", "architecture", "cores", "processor"}
    assert commit() is None or len(commit().rstrip("+")) == 40
