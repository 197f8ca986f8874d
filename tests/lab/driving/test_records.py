import json

import pytest

from nsac.lab.driving.records import DriveStore, make_record, record_name, section, table_rows
from nsac.lab.grid.store import RecordError
from support.roads import single, untrained  # noqa: F401


def made(method="nsac", seed=0, success=1.0):
    config = untrained(method, seed=seed).config
    return make_record(config, "trials", {"tracks": (1, 2)}, {"success": success, "odd": float("nan")}, {}, 1.0)


def test_a_record_comes_back_as_it_was_and_is_found_by_its_numbers(tmp_path):
    record = made()
    store = DriveStore(tmp_path)
    assert store.write(record) and not store.write(record)
    assert store.read(record.name) == record and record.measures["odd"] is None
    assert record_name(untrained("nsac").config, "trials", {"tracks": [1, 2]}) in store
    assert record_name(untrained("nsac").config, "trials", {"tracks": [1, 3]}) not in store


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-9], lambda t: t.replace("1.0", "2.0"), lambda t: "[]", lambda t: '{"sha256": 1}']
)
def test_a_damaged_record_is_refused(tmp_path, damage):
    DriveStore(tmp_path).write(made())
    (path,) = tmp_path.glob("*.json")
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match="`nsac drive test` makes it again"):
        DriveStore(tmp_path).records()


def test_rows_are_means_over_seeds_in_the_order_of_the_paper(tmp_path):
    for method, seed, success in (("de", 0, 0.5), ("nsac", 0, 1.0), ("nsac", 1, 0.8)):
        DriveStore(tmp_path).write(made(method, seed, success))
    rows = table_rows(DriveStore(tmp_path).of("trials"))
    assert [row["method"] for row in rows] == ["nsac", "nsac", "de", "de"]
    none, first, _, last = sorted(rows, key=lambda row: (row["method"] != "nsac", row["metric"]))
    assert first["metric"] == "success" and first["n"] == 2
    assert first["mean"] == pytest.approx(0.9) and first["std"] == pytest.approx(0.02**0.5)
    assert none["mean"] is None and last["mean"] == 0.5 and last["std"] is None
    assert DriveStore(tmp_path).of("mountain") == [] and json.dumps(rows)


def test_the_report_gets_tables_and_the_pictures_that_are_there(tmp_path):
    (tmp_path / "closed-loop.png").write_bytes(b"a picture")
    told = section([made(), made(seed=1, success=0.5), made("de")], tmp_path)
    (sheet,), (image,) = told.sheets, told.images
    assert image.name == "closed-loop" and image.content == b"a picture"
    assert [row[:2] for row in sheet.rows] == [["nsac", 2], ["de", 1]] and sheet.rows[0][2].mean == 0.75
    assert len(sheet.head) == len(sheet.rows[0]) and sheet.rows[0][3] is None
