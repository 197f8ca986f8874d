import pytest

from nsac.lab.shifts import growth
from nsac.lab.shifts.growth import SHARES, GrowthRun, growth_figure, run_growth
from nsac.training import TrainConfig


def test_the_figure_has_a_panel_per_task():
    runs = [GrowthRun(task, share, 0, 0.1 / share, 0.3, 0.4) for task in ("a", "b") for share in SHARES]
    assert [axes.get_title("left") for axes in growth_figure(runs).axes] == ["a", "b"]


def test_points_are_means_over_seeds():
    runs = [GrowthRun("a", share, seed, 0.1, 0.3, 0.4 + 0.2 * seed) for share in SHARES for seed in (0, 1)]
    assert growth_figure(runs).axes[0].lines[0].get_ydata() == pytest.approx([0.5] * len(SHARES))


def test_a_run_follows_from_its_arguments(data, monkeypatch):
    monkeypatch.setitem(growth.CONFIGS, "table", TrainConfig(max_steps=2, accelerator="cpu"))
    assert run_growth("concrete", 1 / 8) == run_growth("concrete", 1 / 8)
