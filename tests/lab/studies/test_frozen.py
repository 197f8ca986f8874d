import dataclasses
import io
import math

import pytest
import torch
from rich.console import Console

from nsac import NSAC
from nsac.lab.studies.frozen import PAPER, REGIMES, frozen_analysis, frozen_figure, frozen_table, step


@pytest.fixture(scope="module")
def layer() -> NSAC:
    return NSAC(1, 1, d_model=16, num_heads=4, circuit_units=16)


@pytest.fixture(scope="module")
def records(layer):
    return frozen_analysis(layer)


def test_there_is_a_record_for_each_regime_of_the_paper(records):
    assert [r.regime for r in records] == list(REGIMES) == list(PAPER)


def test_numbers_are_percentages_and_the_largest_error_is_no_less_than_the_average(records):
    for record in records:
        _, *numbers = dataclasses.astuple(record)
        assert all(math.isfinite(x) and x > 0 for x in numbers)
        assert record.mean_error <= record.max_error and record.std_mean_error <= record.std_max_error


def test_more_updates_shrink_every_error(layer, records):
    for coarse, fine in zip(records, frozen_analysis(layer, updates=40), strict=True):
        assert fine.mean_error < 0.6 * coarse.mean_error  # about half: the error has order 1 in the update's length
        assert fine.std_mean_error < 0.6 * coarse.std_mean_error


@pytest.mark.parametrize("updates", [1, 7, 20])
def test_bound_holds_in_every_update_and_is_not_idle(layer, updates):
    for record in frozen_analysis(layer, updates):
        assert record.bound_holds
        assert record.bound_use > 10


def test_gates_that_do_not_move_leave_no_error():
    blind = NSAC(1, 1, d_model=16, num_heads=4, circuit_units=16)
    with torch.no_grad():
        blind.attention.key.synapses.weight.zero_()  # the key is its bias, whatever it sees
    for record in frozen_analysis(blind):
        assert record.max_error == pytest.approx(0.0, abs=1e-9)
        assert record.bound_holds


def test_no_jump_hides_behind_an_update():
    grid = torch.linspace(0, 1, 21)[1:-1]
    assert torch.equal(step(grid - 1e-9), step(grid + 1e-9))


@pytest.mark.parametrize(("inputs", "topk"), [(2, 8), (1, 1)], ids=["two signals", "may overlook the key"])
def test_a_layer_that_cannot_follow_the_drive_is_refused(inputs, topk):
    with pytest.raises(ValueError, match=f"`layer` must have .* Got input_dim={inputs} and topk={topk} instead"):
        frozen_analysis(NSAC(inputs, 1, d_model=16, num_heads=4, topk=topk))


def test_table_shows_the_paper_beside_ours_within_80_columns(records):
    console = Console(width=80, file=io.StringIO())
    console.print(frozen_table(records))
    text = console.file.getvalue()
    assert text.splitlines()[2].split() == ["%", *["paper", "ours"] * len(REGIMES)]
    assert "…" not in text
    for record in records:
        assert f"{record.mean_error:.2f}" in text and f"{PAPER[record.regime][0]:.2f}" in text


def test_figure_saves_without_a_display(layer, tmp_path):
    figure = frozen_figure(layer)
    figure.savefig(tmp_path / "step.png")
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 6


@pytest.mark.slow
def test_bounds_hold_for_the_layer_that_is_trained_by_default(seed):
    assert all(record.bound_holds for record in frozen_analysis(seeds=(seed,)))
