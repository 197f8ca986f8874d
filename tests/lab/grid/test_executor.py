import dataclasses
import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nsac.lab.grid import executor
from nsac.lab.grid.executor import Event, InProcess, Processes, execute
from nsac.lab.grid.run import run_once
from nsac.lab.grid.store import Store, finite
from support.runs import a_record, tiny


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "records")


@pytest.fixture
def pretend(monkeypatch):
    """Runs that take no time; seed 1 fails."""
    ran = []

    def run_once(config):
        ran.append(config.seed)
        if config.seed == 1:
            raise FloatingPointError("it diverged")
        facts = {name: getattr(config, name) for name in ("task", "protocol", "method", "seed", "key")}
        return a_record(**facts, config=config.to_dict())

    monkeypatch.setattr(executor, "run_once", run_once)
    return ran


def test_records_are_kept_one_by_one_a_failure_is_told_and_what_is_there_is_not_run_again(store, pretend):
    configs = [tiny(seed=seed) for seed in range(3)]
    events = execute(configs, store, InProcess())
    assert next(events).kind == "start" and not store.names()
    assert next(events).kind == "done" and len(store.names()) == 1  # written before it is told
    assert [event.kind for event in events] == ["start", "failed", "start", "done"]
    assert pretend == [0, 1, 2]
    again = list(execute(configs, store, InProcess()))
    assert pretend == [0, 1, 2, 1] and again[-1] == Event("failed", configs[1], None, "FloatingPointError: it diverged")


def test_what_another_program_did_meanwhile_is_left_out(store, pretend):
    first, second = tiny(seed=0), tiny(seed=2)
    events = execute([first, second], store, InProcess())
    next(events)
    facts = {name: getattr(second, name) for name in ("task", "protocol", "method", "seed", "key")}
    store.write(a_record(**facts, config=second.to_dict()))
    assert [event.kind for event in events] == ["done"] and pretend == [0]


def quick(n):
    return [tiny("boston", ("paper", "sound")[i % 2], "gmle", i // 2, steps=60) for i in range(n)]


@pytest.mark.slow
def test_processes_give_what_this_process_gives_and_a_killed_one_is_replaced(data, store, tmp_path):
    configs, kinds = quick(4), []
    for event in execute(configs, store, Processes(2)):
        kinds.append(event.kind)
        if kinds == ["start"]:
            multiprocessing.active_children()[0].kill()
    assert sorted(kinds) == ["done"] * 4 + ["start"] * 4
    assert not multiprocessing.active_children()
    elsewhere = Store(tmp_path / "here")
    assert {event.kind for event in execute(configs, elsewhere, InProcess())} == {"start", "done"}
    assert [r.result for r in store.records()] == [r.result for r in elsewhere.records()]


CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
from nsac.lab.grid.config import RunConfig
from nsac.lab.grid.executor import RayCluster, execute
from nsac.lab.grid.run import run_once
from nsac.lab.grid.store import Store, finite

configs = [RunConfig(**c) for c in json.load(open(sys.argv[1]))]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
node = cluster.add_node(num_cpus=1)
done = 0
for event in execute(configs, Store(sys.argv[2]), RayCluster(cluster.address)):
    assert event.kind != "failed", event.error
    done += event.kind == "done"
    if done == 2 and node is not None:
        cluster.remove_node(node, allow_graceful=False)
        node = None
assert node is None
cluster.shutdown()
print("done", done)
"""


@pytest.mark.slow
def test_a_cluster_of_two_nodes_finishes_although_one_is_killed(data, store, tmp_path):
    pytest.importorskip("ray", reason="the extra `bench` has ray")
    configs = quick(12)
    (tmp_path / "grid.json").write_text(json.dumps([config.to_dict() for config in configs]))
    script = tmp_path / "cluster.py"
    script.write_text(textwrap.dedent(CLUSTER))
    told = subprocess.run(
        [sys.executable, "-W", "ignore", script, tmp_path / "grid.json", store.folder],
        capture_output=True, text=True, timeout=600, env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
    )  # fmt: skip
    assert "done 12" in told.stdout, told.stdout[-2000:] + told.stderr[-2000:]
    assert store.names() == sorted(config.name for config in configs)
    for config in configs:
        assert store.read(config.name).result == finite(run_once(config).result)


@pytest.mark.slow
def test_records_are_told_to_mlflow_once(tmp_path):
    pytest.importorskip("mlflow", reason="the extra `track` has mlflow")
    code = """
    import sys; sys.path[:0] = sys.argv[1:]
    from runs import a_record
    from nsac.lab.grid.mlflow import MLflow
    tell = MLflow()
    record = a_record(metrics={"mse": 0.5, "nll": None})
    print(tell(record), MLflow()(record), tell(a_record(1)))
    asked = "tags.`nsac.record` = '%s'" % record.name
    (found,) = tell.mlflow.search_runs([tell.experiment], asked, output_format="list")
    print(found.data.metrics["mse"], found.data.params["steps"], found.data.metrics["seconds_fit_cpu"])
    """
    address = f"sqlite:///{tmp_path}/runs.db"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), Path(__file__).parents[1]],
        capture_output=True, text=True, cwd=tmp_path, timeout=300, env={**os.environ, "MLFLOW_TRACKING_URI": address},
    )  # fmt: skip
    assert told.stdout.split() == ["True", "False", "True", "0.5", "3", "1.5"], told.stderr[-2000:]


def test_a_config_survives_its_plain_values():
    config = tiny()
    assert dataclasses.replace(config) == type(config)(**json.loads(json.dumps(config.to_dict())))
