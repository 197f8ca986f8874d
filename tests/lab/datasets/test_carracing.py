import hashlib
import json

import pytest
import torch

from nsac.lab.datasets import DataError
from nsac.lab.datasets.carracing import (
    DTYPES,
    INDEX,
    RecordConfig,
    RecordingError,
    load_recording,
    read_index,
    record_config,
    recordings_folder,
)
from support.roads import made_recording, single, written_recording  # noqa: F401


def test_a_recording_is_read_as_it_was_written(tmp_path):
    read, made = written_recording(tmp_path), made_recording(3, 10)
    assert all(torch.equal(getattr(read, name), getattr(made, name)) for name in DTYPES)


def test_the_digest_of_a_recording_is_that_of_its_shards(tmp_path):
    digest = written_recording(tmp_path).digest
    shards = "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(tmp_path.glob("shard-*")))
    assert digest == hashlib.sha256(shards.encode()).hexdigest()[:16]


def test_the_environment_names_the_default_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NSAC_RECORDING", str(tmp_path))
    assert recordings_folder() == tmp_path


def test_an_error_of_a_recording_is_an_error_of_data():
    assert issubclass(RecordingError, DataError)


def test_another_configuration_is_refused(tmp_path):
    written_recording(tmp_path)
    with pytest.raises(RecordingError, match="with frames 30, not 60"):
        read_index(tmp_path, RecordConfig(frames=60))


def test_a_folder_without_a_recording_names_the_command_that_makes_one(tmp_path):
    with pytest.raises(RecordingError, match="nsac drive record"):
        load_recording(tmp_path)


def test_an_interrupted_recording_is_refused(tmp_path):
    written_recording(tmp_path)
    index = json.loads((tmp_path / INDEX).read_text())
    index["shards"].pop()
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(RecordingError, match="must hold 30 frames. It holds 20"):
        load_recording(tmp_path)


def test_a_wrong_number_of_frames_is_named(tmp_path):
    written_recording(tmp_path)
    index = json.loads((tmp_path / INDEX).read_text())
    index["shards"][0]["frames"] += 1
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(RecordingError, match="must hold 11 frames of torch.uint8. It holds 10"):
        load_recording(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "shard-0001.safetensors").write_bytes((f / "shard-0001.safetensors").read_bytes()[:-5]),
        lambda f: (f / "shard-0001.safetensors").unlink(),
        lambda f: (f / INDEX).write_text("{"),
        lambda f: (f / INDEX).write_text('{"format": "other"}'),
        lambda f: (f / INDEX).write_text((f / INDEX).read_text().replace("shard-0000", "../x/shard-0000")),
    ],
    ids=["truncated", "missing", "no JSON", "another file", "another folder"],
)
def test_a_damaged_recording_is_one_clear_error(tmp_path, damage):
    written_recording(tmp_path)
    damage(tmp_path)
    with pytest.raises(RecordingError, match="is damaged"):
        load_recording(tmp_path)


@pytest.mark.parametrize("frames, limit", [(600, 150), (2800, 700), (30_000, 700)])
def test_the_laps_of_a_short_recording_are_cut_so_that_it_has_four(frames, limit):
    assert record_config(frames) == RecordConfig(frames, limit=limit)
