"""Messy files are fitted, predicted and evaluated, or refused in one line: no traceback, no silent NaN."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from nsac.cli.main import app
from nsac.estimators.stacked import MEMBERS
from support.messy_tables import messy_table

FILES, CHUNK = 300, 30
METHODS = ("nsac", "gmle", "gmle", "gmle", "ridge")
PREDICTED = ["mean", "std", "aleatoric", "epistemic", "lower_90", "upper_90"]


def run(about: str, *arguments) -> tuple[int, str]:
    """Exit code, which is 0 or 2, and what is printed to standard output."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, (SystemExit, type(None))), f"{about}: {result.exception!r}\n{result.output}"
    assert result.exit_code in (0, 2) and "Traceback" not in result.output, f"{about}: {result.output}"
    assert "unexpected" not in result.output, f"{about}: {result.output}"
    if result.exit_code:
        lines = [line for line in result.stderr.splitlines() if not line.startswith("Note: ")]
        assert len(lines) == 1 and lines[0].startswith("Error: ") and len(lines[0]) > 20, f"{about}: {result.output}"
    return result.exit_code, result.stdout


def finite(scores: dict) -> bool:
    return all(
        math.isfinite(value) for each in scores.values() for kind in ("model", "naive") for value in each[kind].values()
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, FILES, CHUNK))
def test_messy_files_are_used_or_refused(first, tmp_path, monkeypatch):
    monkeypatch.setitem(MEMBERS, "default", 2)
    fitted = 0
    for seed in range(first, first + CHUNK):
        table, model = messy_table(seed), tmp_path / f"m{seed}"
        for name in ("train", "test"):
            (tmp_path / f"{name}.csv").write_bytes(getattr(table, name))
        options = ("--target", table.target, "--out", model, "--steps", "5", "--method", METHODS[seed % len(METHODS)])
        code, _ = run(table.about, "fit", tmp_path / "train.csv", *options)
        assert (code == 0) == model.exists(), table.about
        if code:
            continue
        fitted += 1
        for name in ("train", "test"):
            code, text = run(table.about, "predict", model, tmp_path / f"{name}.csv")
            assert name == "test" or code == 0, f"{table.about}: the file that was fitted cannot be predicted"
            if code == 0:
                values = pd.read_csv(io.StringIO(text))[PREDICTED].to_numpy(dtype=float)
                assert np.isfinite(values).all(), f"{table.about}: {values}"
            code, text = run(table.about, "evaluate", model, tmp_path / f"{name}.csv", "--json")
            assert code or finite(json.loads(text)), f"{table.about}: {text}"
        page = ("--out", tmp_path / "page.html")
        if seed % 3 == 0:
            run(table.about, "evaluate", model, tmp_path / "train.csv", *page)
    assert fitted > 0
