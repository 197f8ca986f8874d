import json

import pytest

from nsac.bench.store import RecordError
from nsac.driving.records import make_record, read_record, read_records, record_file, table_rows, write_record
from roads import single, untrained  # noqa: F401


def made(method="nsac", seed=0, success=1.0):
    config = untrained(method, seed=seed).config
    return make_record(config, "trials", {"tracks": (1, 2)}, {"success": success, "odd": float("nan")}, {}, 1.0)


def test_a_record_comes_back_as_it_was_and_is_found_by_its_numbers(tmp_path):
    record = made()
    path = write_record(tmp_path, record)
    assert read_record(path) == record and record.measures["odd"] is None
    assert path == record_file(tmp_path, untrained("nsac").config, "trials", {"tracks": [1, 2]})
    assert path != record_file(tmp_path, untrained("nsac").config, "trials", {"tracks": [1, 3]})


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-9], lambda t: t.replace("1.0", "2.0"), lambda t: "[]", lambda t: '{"sha256": 1}']
)
def test_a_damaged_record_is_refused(tmp_path, damage):
    path = write_record(tmp_path, made())
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match="cannot be used"):
        read_record(path)


def test_rows_are_means_over_seeds_in_the_order_of_the_paper(tmp_path):
    for method, seed, success in (("de", 0, 0.5), ("nsac", 0, 1.0), ("nsac", 1, 0.8)):
        write_record(tmp_path, made(method, seed, success))
    rows = table_rows(read_records(tmp_path, "trials"))
    assert [row["method"] for row in rows] == ["nsac", "nsac", "de", "de"]
    none, first, _, last = sorted(rows, key=lambda row: (row["method"] != "nsac", row["metric"]))
    assert first["metric"] == "success" and first["n"] == 2
    assert first["mean"] == pytest.approx(0.9) and first["std"] == pytest.approx(0.02**0.5)
    assert none["mean"] is None and last["mean"] == 0.5 and last["std"] is None
    assert list(read_records(tmp_path, "mountain")) == [] and json.dumps(rows)
