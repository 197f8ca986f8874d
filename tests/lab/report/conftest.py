import pytest

from nsac.lab.grid.config import run_config
from support.runs import a_record

ROWS = 60
MEAN_CRPS = {"nsac": 0.02, "gmle": 0.03, "der": 0.05, "ridge": 0.01}


def made_up(task, protocol, method, seed, crps):
    config = run_config(task, protocol, method, seed)
    at = list(range(ROWS))
    panel = {"name": "rows", "at": at, "y": [i % 7 for i in at], "mean": [3.0] * ROWS, "std": [1.0] * ROWS}
    panel |= {"epistemic": [0.2] * ROWS, "half_90": [2.5] * ROWS}
    metrics = {"mse": crps**2, "crps": crps, "nll": None if method == "der" else crps, "coverage_90": 0.85}
    return a_record(
        seed, task=task, protocol=protocol, method=method, key=config.key, config=config.to_dict(), bands=[panel],
        text="Rows <b>are</b> shuffled.", pit={"raw": [3] * 20, "calibrated": [1] * 10 + [2] * 10},
        metrics={**metrics, "coverage_90_calibrated": 0.8}, versions={"torch": "2"},
        seconds={"fit_cpu": 1.5, "predict_cpu": 0.5},
    )  # fmt: skip


@pytest.fixture(scope="session")
def records():
    """Two tasks, both protocols, four methods and three seeds, with made-up numbers."""
    return [
        made_up(task, protocol, method, seed, crps + 0.001 * seed * (2 if method == "gmle" else 1))
        for task in ("boston", "kin8nm")
        for protocol in ("paper", "sound")
        for method, crps in MEAN_CRPS.items()
        for seed in range(3)
    ]
