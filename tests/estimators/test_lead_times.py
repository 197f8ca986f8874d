import numpy as np
import pandas as pd
import pytest
import torch

from nsac.estimators.lead_times import interpolate_steps, lead_times
from support.series import HOUR, STEP

DATES = np.dtype("datetime64[ns]")
LAST = pd.Timestamp("2024-01-02")


def leads(at):
    return lead_times(at, np.array([LAST.value]), HOUR, 6, DATES)


def test_lead_times_are_in_steps():
    times, lead = leads([LAST + 2 * STEP, LAST + 2.5 * STEP])
    assert lead.tolist() == [[2, 2.5]] and times[0, 0] == (LAST + 2 * STEP).value


def test_a_single_time_is_enough():
    assert leads(LAST + STEP)[1].tolist() == [[1]]


@pytest.mark.parametrize("steps", [0, -1, 6.5])
def test_a_time_outside_the_horizon_is_refused(steps):
    with pytest.raises(
        ValueError, match="`at` must be after 2024-01-02 00:00:00, .* no later than 2024-01-02 06:00:00"
    ):
        leads(LAST + steps * STEP)


def test_times_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="`at` must be dates without a zone, as the time column. Got numbers"):
        leads(3.0)


def test_between_steps_values_are_interpolated():
    steps, start = torch.tensor([[10.0, 20.0]]), torch.tensor([0.0])
    assert interpolate_steps(steps, start, np.array([[0.5, 1.0, 1.5, 2.0]])).tolist() == [[5, 10, 15, 20]]
