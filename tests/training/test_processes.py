import socket

import pytest
import torch
from safetensors.torch import load_file

from nsac.training.checkpoint import latest_checkpoint, read_checkpoint
from support import two_processes
from support.training_problems import run_module


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.slow  # it starts two processes
def test_two_processes_with_half_batches_agree_with_one_with_the_joint_batch(tmp_path):
    one, both = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    both.mkdir()
    two_processes.main(one, 1)
    done = run_module("support.two_processes", both, 2, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""
    expected, found = load_file(one / "found.safetensors"), load_file(both / "found.safetensors")
    assert expected.keys() == found.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-6)
    snapshot = read_checkpoint(latest_checkpoint(both / "checkpoint"))
    assert snapshot.facts["processes"] == 2
    assert not torch.equal(snapshot.tensors["generator/0"], snapshot.tensors["generator/1"])
