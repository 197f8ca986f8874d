import numpy as np
import pytest
import torch

from nsac.lab.datasets import carracing
from nsac.lab.datasets.carracing import DTYPES, INDEX, RecordConfig, RecordingError
from nsac.lab.driving import expert as expert_module
from nsac.lab.driving.expert import BRAKING, MAX_SPEED, MIN_SPEED, Expert, record, speed_profile
from nsac.lab.driving.world import DONE, Track, World

SMALL = RecordConfig(frames=50, shard=15, limit=10, bursts=0.3)


@pytest.fixture(scope="module")
def world():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    made = World()
    yield made
    made.close()


@pytest.fixture(scope="module")
def ellipse():
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    return Track(np.stack([150 * np.cos(angle), 30 * np.sin(angle)], 1), 6.0)


def test_target_speeds_are_between_their_limits(ellipse):
    speed = speed_profile(ellipse)
    assert MIN_SPEED <= speed.min() < 60 < speed.max() <= MAX_SPEED


def test_braking_reaches_the_next_target_speed(ellipse):
    speed = speed_profile(ellipse)
    assert (speed**2 <= np.roll(speed, -1) ** 2 + BRAKING * ellipse.lengths + 1e-6).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_expert_finishes_every_lap_near_the_centreline(world, seed):
    world.start(seed)
    expert, distances = Expert(world), []
    while world.visited < DONE and len(distances) < 600:
        world.step(expert.act())
        distances.append(world.track.project(world.position)[1])
    assert world.visited >= DONE and np.mean(distances) < 0.6


@pytest.mark.slow
def test_the_expert_returns_to_the_road(world):
    world.start(1)
    for _ in range(60):
        world.step(np.array([0.3, 0.6, 0.0]))
    assert world.track.project(world.position)[1] > world.track.half_width
    expert = Expert(world)
    for _ in range(250):
        world.step(expert.act())
    assert world.track.project(world.position)[1] < 3


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    folder = tmp_path_factory.mktemp("whole")
    return folder, record(folder, SMALL)


def assert_same(one, two):
    assert one.digest == two.digest and all(torch.equal(getattr(one, name), getattr(two, name)) for name in DTYPES)


def test_a_recording_has_the_configured_number_of_frames(whole):
    assert len(whole[1]) == 50 and whole[1].frames.shape[1:] == (84, 84)


def test_laps_take_consecutive_seeds(whole):
    assert whole[1].laps.unique().tolist() == [0, 1, 2, 3, 4]


def test_a_shard_ends_with_its_lap(whole):
    files = sorted(path.name for path in whole[0].iterdir())
    assert files == [INDEX, *(f"shard-000{i}.safetensors" for i in range(3))]


def test_recorded_actions_are_in_the_range_of_the_simulator(whole):
    actions = whole[1].actions
    assert (actions[:, 0].abs() <= 1).all() and (actions[:, 1:] >= 0).all() and actions.std(0)[0] > 0


class Killed(BaseException):
    pass


def kill_after(frames):
    def report(done):
        if done > frames:
            raise Killed

    return report


@pytest.mark.parametrize("moment", [12, 25, 45])
def test_an_interrupted_recording_resumes_and_ends_with_the_same_bits(whole, tmp_path, moment):
    with pytest.raises(Killed):
        record(tmp_path, SMALL, kill_after(moment))
    assert_same(record(tmp_path, SMALL), whole[1])


@pytest.mark.parametrize("moment", [12, 25, 45])
def test_complete_shards_are_not_recorded_again(whole, tmp_path, moment):
    with pytest.raises(Killed):
        record(tmp_path, SMALL, kill_after(moment))
    reported = []
    record(tmp_path, SMALL, reported.append)
    assert min(reported) > (moment // 20) * 20


def test_a_shard_that_is_not_in_the_index_is_recorded_again(whole, tmp_path, monkeypatch):
    write = carracing.write_atomic

    def kill(path, content):
        if path.name == INDEX and (tmp_path / "shard-0001.safetensors").exists():
            raise Killed
        write(path, content)

    monkeypatch.setattr(carracing, "write_atomic", kill)
    with pytest.raises(Killed):
        record(tmp_path, SMALL)
    monkeypatch.undo()
    assert_same(record(tmp_path, SMALL), whole[1])


def test_a_complete_recording_needs_no_simulator(whole, monkeypatch):
    monkeypatch.setattr(expert_module, "World", None)
    assert_same(record(whole[0], SMALL), whole[1])


def test_another_configuration_is_refused(whole):
    with pytest.raises(RecordingError, match="with frames 50, not 60"):
        record(whole[0], RecordConfig(frames=60, shard=15, limit=10, bursts=0.3))
