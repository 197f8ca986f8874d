import hashlib
import json
import os
import sys
import threading

import pytest

from nsac import _io
from nsac._io import (
    HeaderError,
    VersionError,
    add_header,
    check_writable,
    digest,
    lock,
    remove_header,
    restore_folder,
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


@pytest.mark.parametrize("failing", ["rename", "fsync"])
def test_a_failed_folder_leaves_the_old_one(tmp_path, monkeypatch, failing):
    write_folder(tmp_path / "d", {"f": b"a"})
    rename, calls = os.rename, []

    def fail_second(*paths):
        calls.append(paths)
        if len(calls) == 2:  # after the old folder was renamed
            fail()
        rename(*paths)

    monkeypatch.setattr(_io, "_exchange", lambda *_: False)
    monkeypatch.setattr(os, failing, fail_second if failing == "rename" else fail)
    with pytest.raises(OSError, match="no space"):
        write_folder(tmp_path / "d", {"f": b"b"})
    assert (tmp_path / "d" / "f").read_bytes() == b"a" and len(list(tmp_path.iterdir())) == 1


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    write_folder(tmp_path / "d", {"f": b"a", "g": b"a"})
    write_folder(tmp_path / "d", {"f": b"b"})
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"] and len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="other systems cannot exchange folders")
def test_a_folder_is_replaced_without_a_moment_of_absence(tmp_path, monkeypatch):
    write_folder(tmp_path / "d", {"f": b"a"})
    monkeypatch.setattr(os, "rename", fail)
    write_folder(tmp_path / "d", {"f": b"b"})
    assert (tmp_path / "d" / "f").read_bytes() == b"b"


def killed_between_two_renames(folder):
    """What a writer leaves that is killed where folders cannot be exchanged."""
    write_folder(folder, {"f": b"a"})
    os.rename(folder, folder.with_name(f".{folder.name}.0123abcd.old"))
    folder.with_name(f".{folder.name}.4567cdef.new").mkdir()


def test_a_folder_that_a_killed_writer_had_renamed_is_restored(tmp_path):
    killed_between_two_renames(tmp_path / "d")
    restore_folder(tmp_path / "d")
    assert (tmp_path / "d" / "f").read_bytes() == b"a"


def test_the_next_writer_sweeps_what_a_killed_one_left_and_nothing_else(tmp_path):
    killed_between_two_renames(tmp_path / "d")
    others = [".d.txt", ".d.0123abcd", ".d.e.0123abcd.new"]
    for name in others:
        (tmp_path / name).mkdir()
    write_folder(tmp_path / "d", {"f": b"b"})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["d", *others])


def test_a_link_to_a_folder_stays_and_its_target_is_replaced(tmp_path):
    write_folder(tmp_path / "d", {"f": b"a"})
    (tmp_path / "link").symlink_to("d")
    write_folder(tmp_path / "link", {"f": b"b"})
    assert (tmp_path / "link").is_symlink() and (tmp_path / "d" / "f").read_bytes() == b"b"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_to_a_file_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "link").symlink_to("f")
    write_atomic(tmp_path / "link", b"a")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "f").read_bytes() == b"a"


def test_a_lock_that_is_held_is_refused_or_waited_for(tmp_path):
    order = []

    def wait():
        with lock(tmp_path / "l"):
            order.append("second")

    with lock(tmp_path / "l"):
        with pytest.raises(BlockingIOError), lock(tmp_path / "l", wait=False):
            pass
        waiting = threading.Thread(target=wait)
        waiting.start()
        order.append("first")
    waiting.join()
    assert order == ["first", "second"] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["new", "a/b/new", "file", "folder", "link", "dangling"])
def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path, name):
    (tmp_path / "file").write_text("a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("b/c")
    before = sorted(tmp_path.rglob("*"))
    check_writable(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before and (tmp_path / "file").read_text() == "a"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file/new", "Not a directory"),
        ("file/a/b", "Not a directory"),
        ("circle", "symbolic links"),
        ("dangling", "Not a directory"),
        ("pipe", "a device or a pipe"),
        ("/proc/nsac/new", "No such file|Permission|not permitted"),
        ("n" * 300, "File name too long"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_before_the_write(tmp_path, name, reason):
    (tmp_path / "file").write_text("a")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "dangling").symlink_to("file/b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=reason):
        check_writable(tmp_path / name)


def test_a_full_disk_is_found_before_the_write(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        check_writable(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("a")
    monkeypatch.setattr(os, "access", lambda *_: False)  # the owner of the tests may be allowed everything
    with pytest.raises(PermissionError, match="Permission denied"):
        check_writable(tmp_path / "f")
