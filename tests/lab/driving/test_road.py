import numpy as np
import pytest
import torch

from nsac.lab.driving import road
from nsac.lab.driving.road import (
    BLOCK,
    GUARD,
    PER_PIXEL,
    Changes,
    FrameError,
    change,
    decode,
    prepare,
    random_changes,
    read_frames,
    road_task,
    see,
    split_blocks,
)
from nsac.lab.driving.school import other_road
from nsac.methods import METHODS, fit
from support.roads import jpeg, made_drive, single, untrained  # noqa: F401


def no_change(n=1, **others):
    flat = {
        "flip": torch.zeros(n, dtype=torch.bool),
        "right": torch.zeros(n, dtype=torch.long),
        "shadow": torch.ones(n),
    }
    rest = {"down": torch.zeros(n, dtype=torch.long), "bright": torch.ones(n), "edge": torch.ones(n, 3)}
    return Changes(**{**flat, **rest, **others})


FRAMES = torch.from_numpy(np.random.default_rng(0).integers(0, 200, (2, 66, 200, 3), dtype=np.uint8))


def test_a_picture_becomes_a_small_road_in_yuv():
    grey = prepare(np.full((160, 320, 3), 77, np.uint8))
    assert grey.shape == (66, 200, 3) and np.abs(grey.astype(int) - [77, 128, 128]).max() <= 1
    picture = np.zeros((160, 320, 3), np.uint8)
    picture[:60] = picture[-25:] = 255  # sky and bonnet
    assert prepare(picture)[..., 0].max() == 0
    assert see(torch.zeros(2, 1, 66, 200, 3, dtype=torch.uint8)).shape == (2, 1, 3, 66, 200)


@pytest.mark.parametrize("content", [b"", b"no picture", jpeg()[:300]], ids=["empty", "text", "cut"])
def test_what_is_no_picture_is_named(content):
    with pytest.raises(FrameError, match="x.jpg is not a whole picture"):
        decode(content, "x.jpg")
    with pytest.raises(FrameError, match=r"320 x 160. Got \(100, 100\)"):
        decode(jpeg(size=(100, 100)), "x.jpg")


def test_a_broken_frame_of_a_drive_is_named(tmp_path):
    with pytest.raises(FrameError, match="IMG/broken.jpg in .*IMG.tar is not a whole picture"):
        read_frames(made_drive(tmp_path, frames=5, broken=3))


def test_no_change_changes_nothing_and_two_flips_are_none():
    same, steering = change(FRAMES, torch.tensor([0.1, -0.3]), no_change(2))
    assert torch.equal(same, FRAMES) and steering.tolist() == pytest.approx([0.1, -0.3])
    flip = no_change(2, flip=torch.ones(2, dtype=torch.bool))
    once, turned = change(FRAMES, steering, flip)
    assert torch.equal(once, FRAMES.flip(2)) and turned.tolist() == pytest.approx([-0.1, 0.3])
    assert torch.equal(change(once, turned, flip)[0], FRAMES)


def test_a_road_moved_right_is_steered_to_the_right():
    moved, steering = change(FRAMES, torch.zeros(2), no_change(2, right=torch.tensor([5, -5])))
    assert torch.equal(moved[0, :, 5:], FRAMES[0, :, :-5]) and torch.equal(moved[1, :, :-5], FRAMES[1, :, 5:])
    assert steering.tolist() == pytest.approx([5 * PER_PIXEL, -5 * PER_PIXEL])


def test_light_changes_the_brightness_alone():
    dark, steering = change(FRAMES, torch.zeros(2), no_change(2, bright=torch.full((2,), 0.5)))
    assert torch.equal(dark[..., 1:], FRAMES[..., 1:]) and (dark[..., 0] <= FRAMES[..., 0] / 2).all()
    shade = no_change(2, shadow=torch.full((2,), 0.5), edge=torch.tensor([[0.0, 1, 0], [0, 0, 1]]))
    shaded, _ = change(FRAMES, steering, shade)
    assert torch.equal(shaded[0, :, :100], FRAMES[0, :, :100]) and torch.equal(shaded[1, :33], FRAMES[1, :33])
    assert (shaded[0, :, 101:, 0] <= FRAMES[0, :, 101:, 0] / 2).all()
    assert len(random_changes(9, 0).edge) == 9


def test_blocks_of_time_are_apart():
    segment = np.repeat([0, 1, 2], [1400, 2200, 1500])
    parts = split_blocks(segment, 3)
    where = np.full(len(segment), -1)
    for number, rows in enumerate(parts.values()):
        where[rows] = number
    known = np.flatnonzero(where >= 0)
    border = np.flatnonzero((where[known[1:]] != where[known[:-1]]) | (segment[known[1:]] != segment[known[:-1]]))
    assert (known[border + 1] - known[border] > 2 * GUARD - 1).all() and len(border) > 5
    shares = [len(rows) / len(segment) for rows in parts.values()]
    assert shares[0] > 0.5 and min(shares) > 0.05 and sum(shares) == pytest.approx(1 - 2 * GUARD / BLOCK, abs=0.05)


def test_the_task_is_scored_in_steering_and_zero_is_zero(tmp_path, monkeypatch):
    monkeypatch.setattr(road, "BLOCK", 60)
    task = road_task(0, made_drive(tmp_path))
    batch = task.test.batch(torch.arange(4))
    truth = task.test.steering[task.test.rows[:4]]
    shift, scale = task.test.unit(torch.arange(4))
    torch.testing.assert_close((shift + scale * batch["y"])[:, 0], truth)
    zero = METHODS["zero"](task.problem)
    fit(zero, task.validation, task.validation)
    square = task.test.steering[task.test.rows].square().mean().item()
    assert task.score_method(zero)["mse"] == pytest.approx(square, rel=1e-5)


def test_another_road_is_measured_beside_the_known_one(tmp_path, monkeypatch):
    monkeypatch.setattr(road, "BLOCK", 60)
    (tmp_path / "other").mkdir()
    record = other_road(untrained("nsac", "udacity"), made_drive(tmp_path), made_drive(tmp_path / "other", 30))
    assert record.test == "mountain" and record.config["test"]["mountain"] == 30
    assert record.measures["mountain_zero_mse"] > 0 and 0 <= record.measures["auroc_total"] <= 1
