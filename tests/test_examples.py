"""The examples, on tiny data; `factory_floor.py` is tested beside the export that it reads."""

import functools
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import scoringrules
from scipy import stats

from nsac.lab.datasets import FrameTable

FILE = Path(__file__).parents[1] / "examples" / "scoring_bench.py"
if not FILE.exists():
    pytest.skip("the examples are not beside the tests", allow_module_level=True)
ROWS = 90


def load_example():
    spec = importlib.util.spec_from_file_location("scoring_bench", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tiny():
    random = np.random.default_rng(0)
    x = pd.DataFrame({"a": random.normal(size=ROWS), "b": random.choice(["red", "blue"], ROWS)})
    return x, (10 * x["a"] + 5 * (x["b"] == "red") + random.normal(size=ROWS)).to_numpy()


def test_the_protocol_of_scoring_bench_runs_without_it(tiny, monkeypatch, capsys):
    example = load_example()
    monkeypatch.setattr(example, "load_table", lambda name: FrameTable(*tiny, "y"))
    monkeypatch.setattr(example, "NSACRegressor", functools.partial(example.NSACRegressor, method="ridge"))
    example.main(["tiny", "--folds", "2", "--effort", "fast"])
    found = json.loads(capsys.readouterr().out)
    assert found["data"] == "tiny" and found["rows"] == ROWS
    assert found["rmse"] < found["std"] / 2 and found["crps"] < found["rmse"]
    assert found["coverage_90"] == pytest.approx(0.9, abs=0.1)


def test_scores_of_gaussian_quantiles_are_those_of_the_gaussian():
    example = load_example()
    y = np.random.default_rng(1).normal(size=500)
    quantiles = np.tile(stats.norm.ppf(example.LEVELS), (len(y), 1))
    found = example.scores(y, np.zeros(len(y)), quantiles)
    assert found["crps"] == pytest.approx(np.mean(scoringrules.crps_normal(y, 0.0, 1.0)), rel=0.01)
    assert found["coverage_90"] == pytest.approx(np.mean(np.abs(y) < 1.645), abs=0.005)
    expected = scoringrules.interval_score(y, -1.645, 1.645, 0.1).mean()
    assert found["interval_score_90"] == pytest.approx(expected, rel=0.01)


def test_the_distribution_is_handed_to_scoring_bench_as_ascending_quantiles(tiny, monkeypatch):
    class Prediction:
        @classmethod
        def from_multi_quantile(cls, q, alphas, mean=None, *, train_range):
            return q, alphas, mean, train_range

    base = ModuleType("scoringbench.univariate.wrappers.base")
    vars(base).update(DistributionPrediction=Prediction, ProbabilisticWrapper=type("ProbabilisticWrapper", (), {}))
    for name in ("scoringbench", "scoringbench.univariate", "scoringbench.univariate.wrappers"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    x, y = tiny
    model = load_example().NSACWrapper(method="ridge", random_state=0).fit(x, pd.Series(y))
    quantiles, levels, mean, train_range = model.predict_distribution(x.iloc[:7])
    assert quantiles.shape == (7, len(levels)) and (np.diff(quantiles) >= 0).all()
    np.testing.assert_allclose(mean, model.predict(x.iloc[:7]))
    assert train_range == (y.min(), y.max())


def test_without_scoring_bench_its_distribution_is_a_named_error(tiny):
    model = load_example().NSACWrapper(method="ridge", random_state=0).fit(*tiny)
    with pytest.raises(ImportError, match="Put a clone of it"):
        model.predict_distribution(tiny[0])
