import inspect
import json
import subprocess
import sys
from dataclasses import asdict, fields

import pytest

from nsac.training import TrainConfig


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
