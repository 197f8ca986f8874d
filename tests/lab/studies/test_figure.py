import numpy as np
import pytest
from matplotlib.figure import Figure

from nsac.lab.studies.figure import demo_figure, draw_tube
from support.studies import tiny_demo


def test_the_figure_of_the_demo_is_written_to_a_new_folder(tmp_path):
    demo_figure(tiny_demo(), tmp_path / "new" / "demo.png")
    assert (tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_a_tube_is_two_standard_deviations_wide_on_each_side():
    axis = Figure().subplots()
    draw_tube(axis, np.array([[0.0, 0.0], [1.0, 0.0]]), np.full((2, 2), 0.5), "blue", "tube")
    assert axis.dataLim.bounds == pytest.approx((-1, -1, 3, 2))
