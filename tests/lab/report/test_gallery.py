from nsac.lab.grid.config import NEURAL
from nsac.lab.report.gallery import picture_groups, pictures
from nsac.lab.studies.base import settings
from support.runs import a_record, a_study_record

PANEL = {"name": "rows", "at": [0, 1], "y": [0.0, 1.0], "mean": [0.0, 1.0]}
PANEL |= {name: [0.1, 0.1] for name in ("std", "epistemic", "half_90")}


def records(task, seeds=(0,)):
    return [
        a_record(seed, task=task, method=method, bands=[PANEL], metrics={"crps": 0.1 + seed})
        for method in NEURAL
        for seed in seeds
    ]


def test_without_records_there_are_no_pictures():
    assert pictures([]) == []


def test_the_groups_of_the_grid_are_first():
    assert picture_groups()[:3] == ["spiral", "forecasts", "bearings"]


def test_a_picture_is_named_by_group_and_protocol():
    (picture,) = pictures(records("hust"))
    assert (picture.name, picture.group, picture.place) == ("bearings-paper", "bearings", "Figure 5")


def test_pictures_are_in_the_order_of_the_paper():
    metrics = {"seconds": 1.0, "seconds_std": 0.0, "memory": 1.0}
    lengths = a_study_record(settings("lengths")[0], metrics)
    made = pictures([*records("hust"), *records("ettm1")], [lengths])
    assert [picture.name for picture in made] == ["forecasts-paper", "bearings-paper", "lengths"]


def test_the_first_seed_is_drawn():
    (picture,) = pictures(records("hust", seeds=(1, 0)))
    assert "CRPS 0.1" in [text.get_text() for text in picture.draw().axes[0].texts]


def test_a_file_has_the_same_bytes_on_every_call():
    (picture,) = pictures(records("hust"))
    assert picture.png() == picture.png() and picture.png().startswith(b"\x89PNG")
