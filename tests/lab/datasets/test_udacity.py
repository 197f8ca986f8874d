import tarfile

import numpy as np
import pytest

from nsac.lab.datasets import DataError, load_drive
from nsac.lab.tasks.udacity import decode
from nsac.training import window_ends
from support.data_files import DAMAGES, copy, expect_refusal, skip_checksums, write

pytestmark = pytest.mark.usefixtures("data")

LOG, FRAMES = "udacity/driving_log_track2.csv", "udacity/IMG_track2.tar"


def test_the_lake_drive_has_the_known_frames_and_segments():
    lake = load_drive("lake")
    assert len(lake) == 5111 and np.bincount(lake.segment).tolist() == [1378, 2203, 1530]
    assert lake.time[-1] == 532.474 and lake.names[0] == "IMG/center_2024_02_12_23_06_24_564.jpg"


def test_the_mountain_drive_has_the_known_frames_and_one_segment():
    mountain = load_drive("mountain")
    assert len(mountain) == 1000 and set(mountain.segment) == {0}
    assert mountain.time[-1] == 78.095 and mountain.names[-1] == "IMG/center_2019_02_21_19_46_02_617.jpg"


def test_the_steering_of_the_drives_has_the_known_values():
    lake, mountain = load_drive("lake").steering, load_drive("mountain").steering
    assert (lake == 0).mean() == pytest.approx(0.6983, abs=1e-4)
    assert (lake.min(), lake.max(), mountain[0]) == (-1, 1, 0.5000001)


CONTROLS = {  # first, last, smallest, largest and mean value
    ("lake", "throttle"): (0, 0, 0, 1, 0.974541),
    ("lake", "brake"): (0, 0, 0, 1, 0.011087),
    ("lake", "speed"): (7.934661e-05, 24.52003, 7.758039e-05, 30.49817, 29.486407),
    ("mountain", "throttle"): (1, 0, 0, 1, 0.342947),
    ("mountain", "brake"): (0, 0, 0, 1, 0.006426),
    ("mountain", "speed"): (20.14617, 13.73275, 9.356259, 30.56718, 23.302693),
}


@pytest.mark.parametrize(("track", "control"), CONTROLS)
def test_the_controls_of_a_drive_have_the_known_values(track, control):
    values = getattr(load_drive(track), control)
    found = (values[0], values[-1], values.min(), values.max(), values.mean())
    assert found == pytest.approx(CONTROLS[track, control], abs=1e-6)


def test_no_window_of_a_drive_crosses_a_segment():
    drive = load_drive("lake")
    history, horizon = 16, 4
    ends = window_ends(drive.segment, history, horizon).numpy()
    assert (drive.segment[ends - history + 1] == drive.segment[ends + horizon]).all()
    assert len(ends) == sum(n - history - horizon + 1 for n in (1378, 2203, 1530))  # and no window is left out


def test_a_frame_is_read_from_the_middle_of_its_archive():
    pytest.importorskip("PIL", reason="frames need the extra `drive`")
    lake = load_drive("lake")
    assert decode(lake.jpeg(2500), "a frame").dtype == np.uint8
    assert decode(lake.jpeg(0), "a frame").mean() == pytest.approx(110.86, abs=0.5)  # decoders round differently


@pytest.mark.parametrize("path", [LOG, FRAMES])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(data, folder, monkeypatch, path, damage):
    copy(data, LOG, folder)
    write(folder, path, DAMAGES[damage]((data / path).read_bytes()))
    skip_checksums(monkeypatch, folder)
    expect_refusal(lambda: load_drive("mountain"), folder / path)


@pytest.mark.parametrize("path", [LOG, FRAMES])
def test_a_folder_in_place_of_a_file_is_refused(data, folder, path):
    if path != LOG:
        copy(data, LOG, folder)
    (folder / path).mkdir(parents=True)
    expect_refusal(lambda: load_drive("mountain"), folder / path)


def test_an_archive_with_the_frames_of_another_drive_is_refused(data, folder, monkeypatch):
    copy(data, LOG, folder)
    with tarfile.open(folder / FRAMES, "w") as tar:
        tar.addfile(tarfile.TarInfo("IMG/other.jpg"))
    skip_checksums(monkeypatch, folder)
    with pytest.raises(DataError, match=r"lacks 1000 of them, for instance IMG/center_2019.* Put an intact copy"):
        load_drive("mountain")
