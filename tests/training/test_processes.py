import os
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from nsac.training.checkpoint import latest_checkpoint, read_checkpoint
from support import two_processes


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.slow  # a second process has to import everything
def test_two_processes_with_half_batches_are_one_with_the_joint_batch(tmp_path):
    one, both = tmp_path / "one", tmp_path / "two"
    one.mkdir(), both.mkdir()
    two_processes.main(one, 1)
    env = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", two_processes.__file__, str(both), "2"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""
    expected, found = load_file(one / "found.safetensors"), load_file(both / "found.safetensors")
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-6)
    snapshot = read_checkpoint(latest_checkpoint(both / "checkpoint"))
    assert snapshot.facts["processes"] == 2
    assert not torch.equal(snapshot.tensors["generator/0"], snapshot.tensors["generator/1"])
