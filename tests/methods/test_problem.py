import pytest

from nsac.methods import EventsProblem, SeriesProblem, TableProblem, WindowProblem, problem_from_dict


@pytest.mark.parametrize(
    ("problem", "arguments", "word"),
    [
        (TableProblem, {"input_dim": 1, "output_dim": 1, "tokens": "feature"}, "tokens"),
        (WindowProblem, {"input_dim": 1, "output_dim": 1, "lookback": 0}, "lookback"),
        (TableProblem, {"input_dim": 0, "output_dim": 1}, "input_dim"),
        (SeriesProblem, {"input_dim": 1, "output_dim": 1, "time_scale": 0.0}, "time_scale"),
        (WindowProblem, {"input_dim": 3, "output_dim": 7, "lookback": 6, "targets": (0, 1)}, "output_dim"),
        (WindowProblem, {"input_dim": 3, "output_dim": 8, "lookback": 6, "targets": (0, 3)}, "targets"),
        (EventsProblem, {"output_dim": 2}, "output_dim"),
        (EventsProblem, {"channels": 0}, "channels"),
        (EventsProblem, {"channels": 2, "targets": (0, 2)}, "targets"),
        (EventsProblem, {"static_dim": -1}, "static_dim"),
        (EventsProblem, {"heavy_tails": False, "beta": 1.5}, "beta"),
        (EventsProblem, {"beta": 1.0}, "beta"),
        (EventsProblem, {"time_scale": -1.0}, "time_scale"),
    ],
)
def test_an_invalid_field_is_refused_by_name(problem, arguments, word):
    with pytest.raises(ValueError, match=f"`{word}`"):
        problem(**arguments)


def test_an_events_problem_is_restored_from_plain_values():
    problem = EventsProblem(channels=5, targets=(1, 3), static_dim=2, future_dim=1, time_scale=24.0, heavy_tails=False)
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in problem.to_dict().items()}
    assert problem_from_dict(plain) == problem
