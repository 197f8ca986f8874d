import pytest

from nsac.methods import SeriesProblem, TableProblem, WindowProblem


@pytest.mark.parametrize(
    ("problem", "arguments", "word"),
    [
        (TableProblem, {"input_dim": 1, "output_dim": 1, "tokens": "feature"}, "tokens"),
        (WindowProblem, {"input_dim": 1, "output_dim": 1, "lookback": 0}, "lookback"),
        (TableProblem, {"input_dim": 0, "output_dim": 1}, "input_dim"),
        (SeriesProblem, {"input_dim": 1, "output_dim": 1, "time_scale": 0.0}, "time_scale"),
        (WindowProblem, {"input_dim": 3, "output_dim": 7, "lookback": 6, "targets": (0, 1)}, "output_dim"),
        (WindowProblem, {"input_dim": 3, "output_dim": 8, "lookback": 6, "targets": (0, 3)}, "targets"),
    ],
)
def test_an_invalid_field_is_refused_by_name(problem, arguments, word):
    with pytest.raises(ValueError, match=f"`{word}`"):
        problem(**arguments)
