import json
from pathlib import Path

import pytest

from nsac.lab.driving.records import DriveStore, make_record, record_name, section, table_rows
from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.store import RecordError
from support.roads import single, untrained  # noqa: F401

RESULTS = Path(__file__).parents[3] / "results" / "driving"


def made(method="nsac", seed=0, success=1.0):
    config = untrained(method, seed=seed).config
    return make_record(config, "trials", {"tracks": (1, 2)}, {"success": success, "odd": float("nan")}, {}, 1.0)


def test_a_record_is_read_as_it_was_written(tmp_path):
    record, store = made(), DriveStore(tmp_path)
    store.write(record)
    assert store.read(record.name) == record


def test_a_record_is_written_once(tmp_path):
    store = DriveStore(tmp_path)
    assert store.write(made()) and not store.write(made())


def test_a_measure_that_is_not_finite_is_none():
    assert made().measures["odd"] is None


@pytest.mark.parametrize("tracks, there", [([1, 2], True), ([1, 3], False)])
def test_a_record_is_found_by_its_configuration(tmp_path, tracks, there):
    DriveStore(tmp_path).write(made())
    name = record_name(untrained("nsac").config, "trials", {"tracks": tracks})
    assert (name in DriveStore(tmp_path)) == there


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the records are in the repository only")
def test_the_names_of_the_published_records_follow_from_their_configurations():
    for record in DriveStore(RESULTS).records():
        run = RunConfig(**record.config["run"])
        assert record_name(run, record.test, record.config["test"]) == record.name


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-9], lambda t: t.replace("1.0", "2.0"), lambda t: "[]", lambda t: '{"sha256": 1}']
)
def test_a_damaged_record_is_refused(tmp_path, damage):
    DriveStore(tmp_path).write(made())
    (path,) = tmp_path.glob("*.json")
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match="`nsac drive test`"):
        DriveStore(tmp_path).records()


@pytest.fixture
def rows():
    return table_rows([made("de", 0, 0.5), made("nsac", 0, 1.0), made("nsac", 1, 0.8)])


def row_of(rows, method, metric):
    (row,) = [row for row in rows if row["method"] == method and row["metric"] == metric]
    return row


def test_rows_are_in_the_order_of_the_paper(rows):
    assert [row["method"] for row in rows] == ["nsac", "nsac", "de", "de"]


def test_a_row_has_mean_and_standard_deviation_over_seeds(rows):
    row = row_of(rows, "nsac", "success")
    assert row["n"] == 2 and row["mean"] == pytest.approx(0.9) and row["std"] == pytest.approx(0.02**0.5)


def test_a_row_of_one_seed_has_no_standard_deviation(rows):
    row = row_of(rows, "de", "success")
    assert row["mean"] == 0.5 and row["std"] is None


def test_a_row_without_finite_values_has_no_mean(rows):
    assert row_of(rows, "nsac", "odd")["mean"] is None


def test_rows_can_be_written_as_json(rows):
    assert json.loads(json.dumps(rows)) == rows


def test_the_store_selects_records_by_test(tmp_path):
    DriveStore(tmp_path).write(made())
    assert len(DriveStore(tmp_path).of("trials")) == 1 and DriveStore(tmp_path).of("mountain") == []


def test_the_report_has_the_pictures_that_are_there(tmp_path):
    (tmp_path / "closed-loop.png").write_bytes(b"a picture")
    (image,) = section([made()], tmp_path).images
    assert image.name == "closed-loop" and image.content == b"a picture"


def test_the_report_has_a_row_per_method(tmp_path):
    (sheet,) = section([made(), made(seed=1, success=0.5), made("de")], tmp_path).sheets
    assert [row[:2] for row in sheet.rows] == [["nsac", 2], ["de", 1]] and sheet.rows[0][2].mean == 0.75


def test_a_measure_without_records_is_an_empty_cell(tmp_path):
    (sheet,) = section([made()], tmp_path).sheets
    assert len(sheet.head) == len(sheet.rows[0]) and sheet.rows[0][3] is None
