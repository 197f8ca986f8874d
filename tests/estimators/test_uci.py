"""The regressor with its defaults on real tables; the full evaluation is `benchmarks/uci.py`."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest


def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "uci.py"
    spec = importlib.util.spec_from_file_location("uci", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_two_splits_of_boston_with_defaults(data, tmp_path):
    """Single splits scatter (by 0.9 in RMSE), so bars for two are loose; all twenty are held to 2.9 and 2.36."""
    uci = benchmark()
    records = [uci.run("boston", split) for split in (0, 1)]
    for split, record in enumerate(records):
        uci.write(tmp_path / "boston" / f"{split:02d}.json", record)
        assert record["cpu_seconds"] < 60
    rmse, nll, coverage = np.mean([[r["rmse"], r["nll"], r["coverage_90"]] for r in records], axis=0)
    assert rmse < 3.8 and nll < 2.7 and coverage > 0.8
    assert uci.table_of(tmp_path, ["boston"]).row_count == 1


def test_the_benchmark_makes_a_record_of_a_split(monkeypatch, tmp_path):
    from types import SimpleNamespace

    from support.table_problems import QUICK, numbers

    uci, (x, y) = benchmark(), numbers()
    splits = ((np.arange(50), np.arange(50, 60)),)
    monkeypatch.setattr(uci, "load_uci", lambda name: SimpleNamespace(x=x, y=y, splits=splits))
    record = uci.run("boston", 0, method="ridge", training=QUICK)
    assert record["rows"] == [50, 10] and all(np.isfinite(record[score]) for score in uci.SCORES)
    uci.write(tmp_path / "boston" / "00.json", record)
    assert uci.splits("0-19") == list(range(20)) and uci.splits("3") == [3]
    assert uci.table_of(tmp_path, ["boston"]).row_count == 1
