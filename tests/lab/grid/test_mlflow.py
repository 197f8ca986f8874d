import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nsac.lab.grid.mlflow import mlflow_logger

CODE = """
import sys; sys.path[:0] = sys.argv[1:]
import mlflow
from nsac.lab.grid.mlflow import EXPERIMENT, mlflow_logger
from support.runs import a_record
log = mlflow_logger()
record = a_record(metrics={"mse": 0.5, "nll": None})
print(log(record), mlflow_logger()(record), log(a_record(1)))
condition = "tags.`nsac.record` = '%s'" % record.name
(found,) = mlflow.search_runs(
    experiment_names=[EXPERIMENT], filter_string=condition, output_format="list"
)
print(found.data.metrics["mse"], found.data.params["steps"], found.data.metrics["seconds_fit_cpu"])
"""


@pytest.mark.slow
def test_a_record_is_logged_once(tmp_path):
    pytest.importorskip("mlflow", reason="the extra `track` has mlflow")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(CODE), Path(__file__).parents[2]],
        capture_output=True, text=True, cwd=tmp_path, timeout=300,
        env={**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/runs.db"},
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False", "True", "0.5", "3", "1.5"], done.stderr[-2000:]


def test_a_missing_mlflow_is_an_error_with_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"pip install 'nsac\[track\]'"):
        mlflow_logger()
