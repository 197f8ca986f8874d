import json

import pytest
import torch

from nsac.lab.driving import recording
from nsac.lab.driving.errors import RecordingError
from nsac.lab.driving.recording import INDEX, KINDS, RecordConfig, load_recording, record

pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
SMALL = RecordConfig(frames=50, shard=15, limit=10, bursts=0.3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, record(folder, SMALL)


@pytest.fixture
def copy(whole, tmp_path):
    for path in whole[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def same(one, two):
    assert one.digest == two.digest and all(torch.equal(getattr(one, name), getattr(two, name)) for name in KINDS)


def test_a_recording_has_the_frames_asked_for_in_whole_laps_and_shards(whole):
    folder, made = whole
    assert len(made) == 50 and made.frames.shape[1:] == (84, 84) and made.laps.unique().tolist() == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in folder.iterdir()) == [INDEX, *(f"shard-000{i}.safetensors" for i in range(3))]
    assert (made.actions[:, 0].abs() <= 1).all() and (made.actions[:, 1:] >= 0).all() and made.actions.std(0)[0] > 0


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", [12, 25, 45])
def test_a_killed_recording_goes_on_and_ends_with_the_same_bits(whole, tmp_path, moment):
    def kill(done):
        if done > moment:
            raise Killed

    with pytest.raises(Killed):
        record(tmp_path, SMALL, kill)
    reported = []
    same(record(tmp_path, SMALL, reported.append), whole[1])
    assert min(reported) > (moment // 20) * 20  # whole shards were kept


def test_a_recording_killed_between_shard_and_index_makes_the_shard_again(whole, tmp_path, monkeypatch):
    write = recording.write_atomic

    def kill(path, content):
        if path.name == INDEX and (tmp_path / "shard-0001.safetensors").exists():
            raise Killed
        write(path, content)

    monkeypatch.setattr(recording, "write_atomic", kill)
    with pytest.raises(Killed):
        record(tmp_path, SMALL)
    monkeypatch.undo()
    same(record(tmp_path, SMALL), whole[1])


def test_a_whole_recording_needs_no_simulator(whole, monkeypatch):
    monkeypatch.setattr(recording, "World", None)
    same(record(whole[0], SMALL), whole[1])


def test_other_numbers_are_refused(whole):
    with pytest.raises(RecordingError, match="with frames 50, not 60"):
        record(whole[0], RecordConfig(frames=60, shard=15, limit=10, bursts=0.3))


def test_a_folder_without_a_recording_says_how_to_make_one(tmp_path):
    with pytest.raises(RecordingError, match="nsac drive record"):
        load_recording(tmp_path)


def test_a_stopped_recording_is_not_taken_for_a_whole_one(copy):
    index = json.loads((copy / INDEX).read_text())
    index["shards"].pop()
    (copy / INDEX).write_text(json.dumps(index))
    with pytest.raises(RecordingError, match="must hold 50 frames. It holds 40"):
        load_recording(copy)


def test_a_wrong_number_of_frames_is_named(copy):
    index = json.loads((copy / INDEX).read_text())
    index["shards"][0]["frames"] += 1
    (copy / INDEX).write_text(json.dumps(index))
    with pytest.raises(RecordingError, match="must hold 21 frames of torch.uint8. It holds 20"):
        load_recording(copy)


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "shard-0001.safetensors").write_bytes((f / "shard-0001.safetensors").read_bytes()[:-5]),
        lambda f: (f / "shard-0001.safetensors").unlink(),
        lambda f: (f / INDEX).write_text("{"),
        lambda f: (f / INDEX).write_text('{"format": "other"}'),
        lambda f: (f / INDEX).write_text((f / INDEX).read_text().replace("shard-0000", "../x/shard-0000")),
    ],
    ids=["cut", "gone", "no JSON", "another file", "another folder"],
)
def test_a_damaged_recording_is_one_clear_error(copy, damage):
    damage(copy)
    with pytest.raises(RecordingError, match="is damaged"):
        load_recording(copy)
