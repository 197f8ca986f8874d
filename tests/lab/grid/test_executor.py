import json
import multiprocessing
import os
import subprocess
import sys
import textwrap

import pytest

from nsac.lab.grid import executor
from nsac.lab.grid.executor import Event, InProcess, Processes, execute
from nsac.lab.grid.run import run_once
from nsac.lab.grid.store import Store, finite
from support.runs import a_record_of, tiny


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
        return a_record_of(config)

    monkeypatch.setattr(executor, "run_once", run_once)
    return ran


@pytest.fixture
def configs():
    return [tiny(seed=seed) for seed in range(3)]


def test_a_record_is_written_before_its_event(store, pretend, configs):
    events = execute(configs, store, InProcess())
    assert next(events).kind == "start" and not store.names()
    assert next(events).kind == "done" and len(store.names()) == 1


def test_a_failing_run_does_not_stop_the_others(store, pretend, configs):
    kinds = [event.kind for event in execute(configs, store, InProcess())]
    assert kinds == ["start", "done", "start", "failed", "start", "done"] and pretend == [0, 1, 2]


def test_a_failure_is_reported_with_its_error(store, pretend, configs):
    last = list(execute(configs[1:2], store, InProcess()))[-1]
    assert last == Event("failed", configs[1], None, "FloatingPointError: it diverged")


def test_a_run_that_has_a_record_is_not_repeated(store, pretend, configs):
    for _ in range(2):
        list(execute(configs, store, InProcess()))
    assert pretend == [0, 1, 2, 1]


def test_a_run_that_another_program_finishes_meanwhile_is_skipped(store, pretend):
    first, second = tiny(seed=0), tiny(seed=2)
    events = execute([first, second], store, InProcess())
    next(events)
    store.write(a_record_of(second))
    assert [event.kind for event in events] == ["done"] and pretend == [0]


def quick(n):
    return [tiny("boston", ("paper", "sound")[i % 2], "gmle", i // 2, steps=60) for i in range(n)]


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_the_results_are_those_of_this_process(data, store, tmp_path):
    configs, kinds, others = quick(4), [], multiprocessing.active_children()  # a pool of an earlier test may be there

    def own():
        return [child for child in multiprocessing.active_children() if child not in others]

    for event in execute(configs, store, Processes(2)):
        kinds.append(event.kind)
        if kinds == ["start"]:
            own()[0].kill()
    assert sorted(kinds) == ["done"] * 4 + ["start"] * 4
    assert not own()
    other = Store(tmp_path / "here")
    assert {event.kind for event in execute(configs, other, InProcess())} == {"start", "done"}
    assert [r.result for r in store.records()] == [r.result for r in other.records()]


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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, tmp_path / "grid.json", store.folder],
        capture_output=True, text=True, timeout=600, env={**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
    )  # fmt: skip
    assert "done 12" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    assert store.names() == sorted(config.name for config in configs)
    for config in configs:
        assert store.read(config.name).result == finite(run_once(config).result)
