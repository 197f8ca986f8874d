import numpy as np
import pytest

from nsac.lab.grid.config import NEURAL
from nsac.lab.report.gallery import METHODS, picture_groups, pictures
from support.runs import a_record

N = 60


def panel(y):
    y = np.asarray(y, dtype=float)
    same = {name: [0.1] * len(y) for name in ("std", "epistemic", "half_90")}
    return {"name": "rows", "at": list(range(len(y))), "y": y.tolist(), "mean": (y + 0.05).tolist(), **same}


def drawn(task, bands, methods=NEURAL):
    records = [
        a_record(seed, task=task, method=m, bands=bands, metrics={"crps": 0.1}) for m in methods for seed in (1, 0)
    ]
    (picture,) = pictures(records)
    return picture


def test_every_method_has_its_panel_of_the_spiral():
    turn = np.linspace(0, 6, 150)
    picture = drawn("spiral", [panel(turn * np.cos(turn)), panel(turn * np.sin(turn))])
    titles = [axis.get_title("left") for axis in picture.draw().axes]
    assert titles == [f"{letter}  {name}" for letter, name in zip("ABCDEF", METHODS.values(), strict=True)]
    assert (picture.name, picture.place) == ("spiral-paper", "Figure 2")


def test_forecasts_are_drawn_in_order_of_time_and_a_method_without_a_record_is_named():
    records = [
        a_record(0, task=task, method=method, bands=[panel(np.sin(np.arange(N)))], metrics={"crps": None})
        for task, method in (("ettm1", "nsac"), ("jena", "nsac"), ("jena", "de"))
    ]
    (picture,) = pictures(records)
    axes = picture.draw().axes
    assert len(axes) == 4 and "no record" in [text.get_text() for text in axes[2].texts]


@pytest.mark.parametrize(("y", "runs"), [
    (np.linspace(0, 1, N) ** 13.5, 1),                                    # one bearing
    (np.tile(np.linspace(0, 1, N // 3) ** 13.5, 3), 3),                   # three, one after the other
    (np.random.default_rng(0).permutation(np.linspace(0, 1, N)), 1),      # a random choice of rows, which are sorted
])  # fmt: skip
def test_degradation_is_drawn_over_the_share_of_life_run_by_run(y, runs):
    axis = drawn("hust", [panel(y)]).draw().axes[0]
    lines = [line for line in axis.lines if len(line.get_xdata()) > 2 and line.get_marker() == "."]
    assert len(lines) == runs
    for line in lines:
        assert (np.diff(line.get_xdata()) > 0).all() and (np.diff(line.get_ydata()) >= 0).all()


def test_predictions_that_cannot_be_seen_are_told():
    far = panel(np.linspace(0, 1, N))
    far["mean"] = [9.0] * N
    picture = drawn("hust", [far], ["nsac"])
    texts = [text.get_text() for text in picture.draw().axes[0].texts]
    assert picture.png() == picture.png() and picture.png().startswith(b"\x89PNG")
    assert "100 % of predictions are outside" in texts


def test_there_is_no_picture_without_records():
    assert pictures([]) == [] and picture_groups()[:3] == ["spiral", "forecasts", "bearings"]
