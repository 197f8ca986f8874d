import pytest
from typer.testing import CliRunner

from nsac.cli.main import app

run = CliRunner().invoke


def test_demo_prints_scores_beside_a_naive_forecast_and_draws(tmp_path):
    out = tmp_path / "new folder" / "demo.png"
    result = run(app, ["demo", "--steps", "3", "--out", str(out)])
    assert result.exit_code == 0, result.output
    for word in ("interpolation", "extrapolation", "mean trajectory", "MSE", "NLL", "CRPS", "90 %"):
        assert word in result.output
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("command", ["", "demo", "bench", "bench study"])
def test_every_command_explains_itself(command):
    result = run(app, [*command.split(), "--help"])
    assert result.exit_code == 0 and "Usage" in result.output


def test_no_steps_is_refused():
    result = run(app, ["demo", "--steps", "0"])
    assert result.exit_code == 2
