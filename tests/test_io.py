import hashlib
import json
import os

import pytest

from nsac._io import (
    HeaderError,
    VersionError,
    add_header,
    digest,
    remove_header,
    write_atomic,
    write_folder,
    write_once,
)

FACTS = {"b": [1, 2.5], "a": "ü"}


def fail(*_):
    raise OSError("no space left")


def test_a_digest_does_not_depend_on_the_order_of_keys():
    expected = hashlib.sha256(b'{"a":1,"b":2}').hexdigest()
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) == expected


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        digest({"a": float("nan")})


def test_a_digest_depends_on_facts_and_contents():
    assert len({digest(FACTS), digest(FACTS, b""), digest(FACTS, b"x"), digest({}, b"x")}) == 4


def test_facts_survive_their_header():
    headed = json.loads(json.dumps(add_header("kind", 1, FACTS, b"weights")))
    assert remove_header("kind", 1, headed, b"weights") == FACTS


@pytest.mark.parametrize(
    ("headed", "error", "message"),
    [
        ([], HeaderError, "does not have the format 'kind'"),
        (add_header("other", 1, FACTS, b"w"), HeaderError, "does not have the format 'kind'"),
        (add_header("kind", 2, FACTS, b"w"), VersionError, "has format version 2; this library reads version 1"),
        (add_header("kind", 1, FACTS, b"v"), HeaderError, "does not match its checksum"),
        (add_header("kind", 1, FACTS, b"w") | {"a": "u"}, HeaderError, "does not match its checksum"),
        (add_header("kind", 1, FACTS, b"w") | {"a": float("inf")}, HeaderError, "does not match its checksum"),
        ({"format": "kind", "version": 1}, HeaderError, "does not match its checksum"),
    ],
)
def test_a_header_that_does_not_fit_is_a_named_error(headed, error, message):
    with pytest.raises(error, match=message):
        remove_header("kind", 1, headed, b"w")


def test_a_file_is_replaced_and_nothing_temporary_left(tmp_path):
    for content in (b"a", b"b"):
        write_atomic(tmp_path / "new" / "f", content)
    assert (tmp_path / "new" / "f").read_bytes() == b"b" and len(list((tmp_path / "new").iterdir())) == 1


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, failing):
    write_atomic(tmp_path / "f", b"a")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="no space"):
        write_atomic(tmp_path / "f", b"b")
    assert (tmp_path / "f").read_bytes() == b"a" and len(list(tmp_path.iterdir())) == 1


def test_a_file_is_written_once(tmp_path):
    assert write_once(tmp_path / "f", b"a") and not write_once(tmp_path / "f", b"b")
    assert (tmp_path / "f").read_bytes() == b"a" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_a_failed_folder_leaves_the_old_one(tmp_path, monkeypatch, failing):
    write_folder(tmp_path / "d", {"f": b"a"})
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="no space"):
        write_folder(tmp_path / "d", {"f": b"b"})
    assert (tmp_path / "d" / "f").read_bytes() == b"a" and len(list(tmp_path.iterdir())) == 1


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    write_folder(tmp_path / "d", {"f": b"a", "g": b"a"})
    write_folder(tmp_path / "d", {"f": b"b"})
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"] and len(list(tmp_path.iterdir())) == 1
