"""A model that was saved when the format was new must load for ever, and predict what it predicted then.

To make one for a new version of the format: `python tests/estimators/test_saved_model.py`, and keep the old ones.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from nsac import load
from support.table_problems import mixed, quick

SAVED = Path(__file__).with_name("saved")


@pytest.mark.parametrize("name", ["regressor-1"])
def test_an_old_model_predicts_what_it_did(name):
    model, (frame, _) = load(SAVED / name / "model"), mixed(12, seed=5)
    then = json.loads((SAVED / name / "predicted.json").read_text())
    now = {"mean": model.predict(frame).tolist(), "interval": model.predict_interval(frame, 0.5).tolist()}
    for key, values in then.items():
        np.testing.assert_allclose(now[key], values, rtol=1e-12)  # another machine may round differently


@pytest.mark.parametrize("name", ["regressor-1", "forecaster-1"])
def test_an_old_model_can_be_saved_and_loaded_again(name, tmp_path):
    load(SAVED / name / "model").save(tmp_path / "model")
    load(tmp_path / "model")


def make(folder: Path) -> None:
    frame, _ = mixed(12, seed=5)
    model = quick(members=1).fit(*mixed())
    model.save(folder / "model")
    then = {"mean": model.predict(frame).tolist(), "interval": model.predict_interval(frame, 0.5).tolist()}
    (folder / "predicted.json").write_text(json.dumps(then) + "\n")


if __name__ == "__main__":
    make(SAVED / "regressor-1")
