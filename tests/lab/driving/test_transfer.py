import pytest

from nsac.lab.driving.transfer import compare_tracks
from nsac.lab.tasks import udacity
from support.roads import made_drive, single_precision, untrained


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    lake, mountain = made_drive(tmp_path_factory.mktemp("lake")), made_drive(tmp_path_factory.mktemp("mountain"), 30)
    with pytest.MonkeyPatch.context() as patch, single_precision():
        patch.setattr(udacity, "BLOCK_FRAMES", 60)
        return compare_tracks(untrained("nsac", "udacity"), lake, mountain)


def test_the_record_names_the_test_and_the_frames_of_each_track(record):
    assert record.test == "mountain" and record.config["test"]["mountain"] == 30


def test_the_error_of_predicting_zero_is_recorded(record):
    assert record.measures["mountain_zero_mse"] > 0


def test_the_separation_of_the_tracks_is_an_auroc(record):
    assert 0 <= record.measures["auroc_total"] <= 1
