import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from nsac.lab.driving.errors import CodecMissing
from nsac.lab.driving.film import BAR, ZOOM, Film, picture
from nsac.lab.driving.lap import LOST, Start, drive_lap, drive_laps
from nsac.lab.driving.pilot import Decision
from nsac.lab.driving.world import World
from support.roads import made_lap, single, untrained  # noqa: F401


class Straight:
    """Full gas, whatever there is to see."""

    length = 2

    def __init__(self):
        self.asked = []

    def decide(self, frames):
        self.asked.append(frames)
        return [Decision(np.array([0.0, 1.0, 0.0]), np.array([0.01, 0, 0]), np.array([0.03, 0, 0])) for _ in frames]


@pytest.fixture(scope="module")
def world():
    pytest.importorskip("Box2D", reason="CarRacing needs the extra `drive`")
    made = World()
    yield made
    made.close()


def test_who_never_steers_leaves_the_road_and_the_lap_ends(world):
    driver, film = Straight(), Film(every=10)
    lap = drive_lap(world, driver, 0, watch=film)
    assert not lap.finished and lap.on_road < len(lap) == len(driver.asked)
    assert (lap.distances[lap.on_road :] > lap.half_width).all() and len(lap) - lap.on_road == LOST
    assert lap.measures()["doubt"] == pytest.approx(0.2) and lap.measures()["steering_error"] > 0
    assert len(film.pictures) == -(-len(lap) // 10)
    assert json.loads(json.dumps(lap.to_dict()))["seed"] == 0


def test_a_lap_can_be_driven_again_to_the_bit(world):
    one, two = (drive_lap(world, untrained("nsac"), 3, limit=15) for _ in range(2))
    np.testing.assert_array_equal(one.positions, two.positions)
    np.testing.assert_array_equal(one.doubt, two.doubt)
    assert len(one) == 15


def test_laps_driven_together_are_those_driven_alone(world):
    other, starts, driver, ended = World(), [Start(seed) for seed in (0, 3, 4)], Straight(), []
    together = drive_laps([world, other], driver, starts, ended.append, limit=20)
    assert {frames.shape[:2] for frames in driver.asked} == {(2, 2), (1, 2)} and len(ended) == 3
    for start, lap in zip(starts, together, strict=True):
        alone = drive_lap(world, Straight(), start.seed, limit=20)
        assert lap.seed == start.seed and len(lap) == 20
        np.testing.assert_array_equal(lap.positions, alone.positions)
    for lap, start in zip(drive_laps([world, other], None, starts, limit=20), starts, strict=True):
        np.testing.assert_array_equal(lap.actions, drive_lap(other, None, start.seed, limit=20).actions)
        np.testing.assert_array_equal(lap.actions, lap.expert)
    other.close()


@pytest.mark.slow
def test_the_expert_finishes_its_own_lap(world):
    lap = drive_lap(world, None, 1001)
    assert lap.finished and lap.visited >= 0.95 and lap.measures()["steering_error"] == 0


def test_doubt_after_the_road_was_left_for_good_does_not_count():
    doubt = np.r_[np.full(60, 0.1), np.full(40, 0.9)]
    distances = np.r_[np.ones(20), np.full(10, 9.0), np.ones(30), np.full(40, 9.0)]
    assert made_lap(doubt, False, distances).measures()["doubt"] == pytest.approx(0.1)
    assert made_lap(doubt, True, distances).on_road == 100  # it came back
    assert made_lap(doubt, False, np.full(100, 9.0)).on_road == 0


def test_shares_of_a_lap_grow_past_the_start_of_the_line():
    lap = made_lap(np.full(40, 0.1))
    np.testing.assert_allclose(lap.shares, np.arange(40) / 40, atol=1e-9)
    later = replace(lap, positions=np.roll(lap.positions, 5, 0))  # begins five points before the line does
    np.testing.assert_allclose(np.diff(later.shares), 1 / 40, atol=1e-9)


def film(pictures=6):
    made = Film()
    made.pictures = [np.full((96 * ZOOM, 96 * ZOOM + BAR, 3), 10 * i, np.uint8) for i in range(pictures)]
    return made


def test_a_film_is_written_as_gif(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="films need the extra `drive`")
    film().save(tmp_path / "deep/lap.gif")
    with image.open(tmp_path / "deep/lap.gif") as shown:
        assert shown.n_frames == 6 and shown.size == (96 * ZOOM + BAR, 96 * ZOOM)


def test_a_film_is_written_as_mp4(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="films need the extra `drive`")
    film().save(tmp_path / "lap.mp4")
    frames, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "lap.mp4"))
    assert frames == 6 and seconds == pytest.approx(6 * 0.08, abs=0.05)


@pytest.mark.parametrize("ending, module", [("gif", "PIL"), ("mp4", "imageio_ffmpeg")])
def test_a_missing_codec_is_named(ending, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CodecMissing, match=r"pip install 'nsac\[drive\]'"):
        film().save(tmp_path / f"lap.{ending}")
    with pytest.raises(ValueError, match=".avi"):
        film().save(tmp_path / "lap.avi")


def test_the_bar_is_as_high_as_the_doubt():
    sure, unsure = (
        picture(np.zeros((96, 96, 3), np.uint8), Decision(np.zeros(3), np.full(3, v), np.full(3, v)), "drive", 0.1)
        for v in (0.0001, 0.02)
    )
    dark = [(shown[:, -1] == 30).all(-1).sum() for shown in (sure, unsure)]
    assert sure.shape == (96 * ZOOM, 96 * ZOOM + BAR, 3) and dark[0] > dark[1]
    handed = picture(np.zeros((96, 96, 3), np.uint8), Decision(*np.zeros((3, 3))), "hand over", None)
    assert (handed[0, 0] == (220, 50, 50)).all()
