import io

import numpy as np
import pytest
import torch

from nsac.lab.tasks import udacity
from nsac.lab.tasks.udacity import (
    BLOCK_FRAMES,
    GUARD_FRAMES,
    MAX_PICTURE_BYTES,
    STEERING_PER_COLUMN,
    Augmentation,
    FrameError,
    augment,
    decode,
    network_input,
    prepare,
    random_augmentation,
    read_frames,
    road_task,
    split_blocks,
)
from nsac.methods import METHODS, fit
from support.roads import jpeg, made_drive, single, single_precision  # noqa: F401

FRAMES = torch.from_numpy(np.random.default_rng(0).integers(0, 200, (2, 66, 200, 3), dtype=np.uint8))
SEGMENT = np.repeat([0, 1, 2], [1400, 2200, 1500])


def only(**changes):
    """An augmentation of two frames by these changes alone."""
    none = {
        "flip": torch.zeros(2, dtype=torch.bool),
        "right": torch.zeros(2, dtype=torch.long),
        "down": torch.zeros(2, dtype=torch.long),
        "brightness": torch.ones(2),
        "shadow": torch.ones(2),
        "edge": torch.ones(2, 3),
    }
    return Augmentation(**{**none, **changes})


FLIP = only(flip=torch.ones(2, dtype=torch.bool))


def test_a_prepared_frame_is_in_yuv():
    grey = prepare(np.full((160, 320, 3), 77, np.uint8))
    assert grey.shape == (66, 200, 3) and np.abs(grey.astype(int) - [77, 128, 128]).max() <= 1


def test_sky_and_bonnet_are_cropped():
    picture = np.zeros((160, 320, 3), np.uint8)
    picture[:60] = picture[-25:] = 255
    assert prepare(picture)[..., 0].max() == 0


def test_channels_of_a_network_input_come_before_rows_and_columns():
    assert network_input(torch.zeros(2, 1, 66, 200, 3, dtype=torch.uint8)).shape == (2, 1, 3, 66, 200)


@pytest.mark.parametrize("content", [b"", b"no picture", jpeg()[:300]], ids=["empty", "text", "truncated"])
def test_bytes_that_are_not_a_picture_are_named(content):
    with pytest.raises(FrameError, match="x.jpg is not a complete picture"):
        decode(content, "x.jpg")


def test_a_picture_of_another_size_is_named():
    with pytest.raises(FrameError, match=r"320 x 160. Got \(100, 100\)"):
        decode(jpeg(size=(100, 100)), "x.jpg")


def test_a_huge_picture_is_refused_without_decoding_it(monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="frames need the extra `drive`")
    file = io.BytesIO()
    image.new("1", (9000, 9900)).save(file, "PNG")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(FrameError, match=r"320 x 160. Got \(9000, 9900\)"):
        decode(file.getvalue(), "x.png")


def test_a_picture_of_too_many_bytes_is_refused():
    with pytest.raises(FrameError, match="at most 200000 bytes. Got 200001"):
        decode(jpeg().ljust(MAX_PICTURE_BYTES + 1, b"\0"), "x.jpg")


def test_a_broken_frame_of_a_drive_is_named(tmp_path):
    with pytest.raises(FrameError, match="IMG/broken.jpg in .*IMG.tar is not a complete picture"):
        read_frames(made_drive(tmp_path, frames=5, broken=3))


def test_an_empty_augmentation_changes_no_frame():
    assert torch.equal(augment(FRAMES, torch.zeros(2), only())[0], FRAMES)


def test_an_empty_augmentation_changes_no_steering():
    assert augment(FRAMES, torch.tensor([0.1, -0.3]), only())[1].tolist() == pytest.approx([0.1, -0.3])


def test_a_flip_mirrors_frame_and_steering():
    frames, steering = augment(FRAMES, torch.tensor([0.1, -0.3]), FLIP)
    assert torch.equal(frames, FRAMES.flip(2)) and steering.tolist() == pytest.approx([-0.1, 0.3])


def test_two_flips_are_none():
    assert torch.equal(augment(*augment(FRAMES, torch.zeros(2), FLIP), FLIP)[0], FRAMES)


def test_a_frame_shifted_to_the_right_is_steered_to_the_right():
    moved, steering = augment(FRAMES, torch.zeros(2), only(right=torch.tensor([5, -5])))
    assert torch.equal(moved[0, :, 5:], FRAMES[0, :, :-5]) and torch.equal(moved[1, :, :-5], FRAMES[1, :, 5:])
    assert steering.tolist() == pytest.approx([5 * STEERING_PER_COLUMN, -5 * STEERING_PER_COLUMN])


def test_brightness_changes_the_luma_alone():
    dark, _ = augment(FRAMES, torch.zeros(2), only(brightness=torch.full((2,), 0.5)))
    assert torch.equal(dark[..., 1:], FRAMES[..., 1:]) and (dark[..., 0] <= FRAMES[..., 0] / 2).all()


def test_a_shadow_darkens_one_side_of_its_edge():
    shade = only(shadow=torch.full((2,), 0.5), edge=torch.tensor([[0.0, 1, 0], [0, 0, 1]]))
    shaded, _ = augment(FRAMES, torch.zeros(2), shade)
    assert torch.equal(shaded[0, :, :100], FRAMES[0, :, :100]) and torch.equal(shaded[1, :33], FRAMES[1, :33])
    assert (shaded[0, :, 101:, 0] <= FRAMES[0, :, 101:, 0] / 2).all()


def test_a_random_augmentation_has_a_value_for_every_row():
    assert {len(column) for column in random_augmentation(9, 0)} == {9}


def test_splits_are_apart_by_two_guards():
    where = np.full(len(SEGMENT), -1)
    for number, rows in enumerate(split_blocks(SEGMENT, 3).values()):
        where[rows] = number
    known = np.flatnonzero(where >= 0)
    border = np.flatnonzero((where[known[1:]] != where[known[:-1]]) | (SEGMENT[known[1:]] != SEGMENT[known[:-1]]))
    assert (known[border + 1] - known[border] > 2 * GUARD_FRAMES - 1).all() and len(border) > 5


def test_splits_have_all_rows_but_the_guards():
    shares = [len(rows) / len(SEGMENT) for rows in split_blocks(SEGMENT, 3).values()]
    assert shares[0] > 0.5 and min(shares) > 0.05
    assert sum(shares) == pytest.approx(1 - 2 * GUARD_FRAMES / BLOCK_FRAMES, abs=0.05)


@pytest.fixture(scope="module")
def small_task(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, single_precision():
        patch.setattr(udacity, "BLOCK_FRAMES", 60)
        return road_task(0, made_drive(tmp_path_factory.mktemp("lake")))


def test_the_task_is_scored_in_steering(small_task):
    test = small_task.test
    batch, (shift, scale) = test.batch(torch.arange(4)), test.unit(torch.arange(4))
    torch.testing.assert_close((shift + scale * batch["y"])[:, 0], test.steering[test.rows[:4]])


def test_the_zero_baseline_predicts_zero_steering(small_task):
    zero = METHODS["zero"](small_task.problem)
    fit(zero, small_task.validation, small_task.validation)
    square = small_task.test.steering[small_task.test.rows].square().mean().item()
    assert small_task.score_method(zero)["mse"] == pytest.approx(square, rel=1e-5)
