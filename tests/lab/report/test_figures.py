import numpy as np
import pytest

from nsac.lab.grid.config import NEURAL
from nsac.lab.report.figures import (
    METHODS,
    bearings_figure,
    forecasts_figure,
    picture_groups,
    pictures,
    spirals_figure,
)
from nsac.lab.studies.base import settings
from support.runs import a_record, a_study_record

N = 60


def panel(y, mean=None):
    y = np.asarray(y, dtype=float)
    same = {name: [0.1] * len(y) for name in ("std", "epistemic", "half_90")}
    predicted = y + 0.05 if mean is None else np.full(len(y), mean)
    return {"name": "rows", "at": list(range(len(y))), "y": y.tolist(), "mean": predicted.tolist(), **same}


def first(pairs, bands, crps=0.1):
    return {
        (task, method): a_record(0, task=task, method=method, bands=bands, metrics={"crps": crps})
        for task, method in pairs
    }


def test_every_method_has_a_panel_of_the_spiral():
    turn = np.linspace(0, 6, 150)
    bands = [panel(turn * np.cos(turn)), panel(turn * np.sin(turn))]
    axes = spirals_figure(first([("spiral", method) for method in METHODS], bands)).axes
    titles = [axis.get_title("left") for axis in axes]
    assert titles == [f"{letter}  {name}" for letter, name in zip("ABCDEF", METHODS.values(), strict=True)]


def test_a_panel_without_a_record_states_it():
    pairs = (("ettm1", "nsac"), ("jena", "nsac"), ("jena", "de"))
    axes = forecasts_figure(first(pairs, [panel(np.sin(np.arange(N)))])).axes
    assert len(axes) == 4 and "no record" in [text.get_text() for text in axes[2].texts]


def test_a_score_that_is_not_finite_is_not_printed():
    axes = forecasts_figure(first([("jena", "nsac")], [panel(np.sin(np.arange(N)))], crps=None)).axes
    assert not axes[0].texts


@pytest.mark.parametrize(("y", "runs"), [
    (np.linspace(0, 1, N) ** 13.5, 1),                                    # one bearing
    (np.tile(np.linspace(0, 1, N // 3) ** 13.5, 3), 3),                   # three, one after the other
    (np.random.default_rng(0).permutation(np.linspace(0, 1, N)), 1),      # a random choice of rows, which are sorted
])  # fmt: skip
def test_degradation_is_drawn_over_the_share_of_life_run_by_run(y, runs):
    axis = bearings_figure(first([("hust", "nsac")], [panel(y)])).axes[0]
    lines = [line for line in axis.lines if len(line.get_xdata()) > 2 and line.get_marker() == "."]
    assert len(lines) == runs
    for line in lines:
        assert (np.diff(line.get_xdata()) > 0).all() and (np.diff(line.get_ydata()) >= 0).all()


def test_predictions_outside_the_panel_are_counted():
    axis = bearings_figure(first([("hust", "nsac")], [panel(np.linspace(0, 1, N), mean=9.0)])).axes[0]
    assert "100 % of predictions are outside the panel" in [text.get_text() for text in axis.texts]


def records(task, seeds=(0,)):
    return [
        a_record(seed, task=task, method=method, bands=[panel([0.0, 1.0])], metrics={"crps": 0.1 + seed})
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
