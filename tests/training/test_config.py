import inspect
import json
import math
import subprocess
import sys
from dataclasses import asdict, fields

import pytest
import torch

from nsac.training import TrainConfig
from nsac.training.config import learning_rate_factor


def test_unknown_keys_are_refused_by_name():
    with pytest.raises(ValueError, match="no field 'learning_rat'.*learning_rate"):
        TrainConfig.from_dict({"learning_rat": 1e-3})


def test_a_config_survives_json_and_its_key_is_stable():
    config = TrainConfig(max_steps=7, ema=None, clip=2)
    again = TrainConfig.from_dict(json.loads(json.dumps(asdict(config))))
    assert again == config and again.key == config.key
    assert TrainConfig(clip=2).key == TrainConfig(clip=2.0).key != TrainConfig().key
    assert TrainConfig().key == "18cef3279e64a842"  # of the defaults: if they change, checkpoints and records change


def test_every_field_is_explained():
    source = inspect.getsource(sys.modules[TrainConfig.__module__]).split("class TrainConfig")[1]
    lines = source.splitlines()
    for field in fields(TrainConfig):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"    {field.name}:"))
        assert lines[at + 1].startswith('    """'), field.name


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0}, {"max_steps": 1.5}, {"batch_size": True}, {"learning_rate": 0.0}, {"weight_decay": -1.0},
        {"schedule": "linear"}, {"warmup": 1.0}, {"clip": 0.0}, {"ema": 1.0}, {"patience": 0}, {"precision": "16"},
        {"checkpoint_every": -1.0}, {"explode": float("inf")}, {"batch_size": 5, "devices": 2},
    ],
)  # fmt: skip
def test_impossible_numbers_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be"):
        TrainConfig(**wrong)


def test_importing_training_does_not_import_fabric():
    code = "import sys, nsac, nsac.training; print([m for m in ('lightning_fabric', 'rich') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_the_cosine_schedule_rises_linearly_and_falls_to_zero():
    shares = [learning_rate_factor(step, 1000, 0.1, "cosine") for step in range(1000)]
    assert shares[0] == pytest.approx(1 / 101) and shares[100] == 1 == max(shares)
    assert shares[:101] == sorted(shares[:101]) and shares[100:] == sorted(shares[100:], reverse=True)
    assert shares[550] == pytest.approx(0.5, abs=1e-3) and 0 < shares[-1] < 1e-5
    assert [shares[i + 1] - shares[i] for i in (3, 70)] == pytest.approx([1 / 101] * 2)


def test_without_warm_up_the_first_step_is_at_the_peak():
    assert learning_rate_factor(0, 10, 0.0, "cosine") == 1 and learning_rate_factor(0, 1, 0.0, "cosine") == 1


@pytest.mark.parametrize("steps, warmup", [(100, 0.1), (37, 0.3), (3, 0.1)])
def test_one_cycle_agrees_with_torch(steps, warmup):
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    oracle = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1.0, steps, pct_start=warmup, cycle_momentum=False)
    for step in range(steps):
        assert learning_rate_factor(step, steps, warmup, "one-cycle") == pytest.approx(oracle.get_last_lr()[0])
        optimiser.step()
        if step < steps - 1:
            oracle.step()


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
@pytest.mark.parametrize("warmup", [0.0, 0.5, 0.99])
def test_every_step_of_a_short_run_has_a_positive_learning_rate(steps, schedule, warmup):
    assert all(0 < learning_rate_factor(s, steps, warmup, schedule) <= 1 and math.isfinite(s) for s in range(steps))
