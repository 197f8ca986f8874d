import sys

import numpy as np
import pytest

from nsac.lab.driving.film import BAR_WIDTH, EMPTY, ZOOM, CodecMissing, Film, picture
from nsac.lab.driving.policy import Decision

BLACK = np.zeros((96, 96, 3), np.uint8)


def film(pictures=6):
    made = Film()
    made.pictures = [np.full((96 * ZOOM, 96 * ZOOM + BAR_WIDTH, 3), 10 * i, np.uint8) for i in range(pictures)]
    return made


def test_a_film_is_written_as_gif(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="films need the extra `drive`")
    film().save(tmp_path / "deep/lap.gif")
    with image.open(tmp_path / "deep/lap.gif") as shown:
        assert shown.n_frames == 6 and shown.size == (96 * ZOOM + BAR_WIDTH, 96 * ZOOM)


def test_a_film_is_written_as_mp4(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="films need the extra `drive`")
    film().save(tmp_path / "lap.mp4")
    frames, seconds = ffmpeg.count_frames_and_secs(str(tmp_path / "lap.mp4"))
    assert frames == 6 and seconds == pytest.approx(6 * 0.08, abs=0.05)  # the container rounds


@pytest.mark.parametrize("suffix, module", [("gif", "PIL"), ("mp4", "imageio_ffmpeg")])
def test_a_missing_codec_is_named(suffix, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CodecMissing, match=r"pip install 'nsac\[drive\]'"):
        film().save(tmp_path / f"lap.{suffix}")


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=".avi"):
        film().save(tmp_path / "lap.avi")


def test_the_bar_grows_with_the_uncertainty():
    def empty_rows(variance):
        decision = Decision(np.zeros(3), np.full(3, variance), np.full(3, variance))
        return (picture(BLACK, decision, "drive", None)[:, -1] == EMPTY).all(-1).sum()

    assert empty_rows(0.0001) > empty_rows(0.02)


def test_the_bar_is_beside_the_picture():
    shown = picture(BLACK, Decision(*np.zeros((3, 3))), "drive", 0.1)
    assert shown.shape == (96 * ZOOM, 96 * ZOOM + BAR_WIDTH, 3)


def test_a_hand_over_has_a_red_border():
    shown = picture(BLACK, Decision(*np.zeros((3, 3))), "hand over", None)
    assert (shown[0, 0] == (220, 50, 50)).all()
