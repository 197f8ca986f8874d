import contextlib
import dataclasses
import os
import random
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from nsac.training import CheckpointError, TrainConfig, train
from nsac.training.checkpoint import Snapshot, latest_checkpoint, read_checkpoint, write_checkpoint
from support.training_problems import Line, Table, bits, run_module, same

CONFIG = TrainConfig(max_steps=30, batch_size=16, validate_every=7, checkpoint_every=0.0)


def run(folder, config=CONFIG, model=None, rows=64, **options):
    model = model or Line()
    return model, train(model, Table(rows), Table(20, seed=1), config, checkpoint=folder, **options)


class Stopped(Exception):
    pass


def stop_at(step):
    def report(progress):
        if progress.step == step:
            raise Stopped

    return report


@pytest.fixture
def folder(tmp_path):
    """A run that was stopped after 12 steps; its last checkpoint is of step 11."""
    with pytest.raises(Stopped):
        run(tmp_path, report=stop_at(12))
    return tmp_path


@pytest.mark.parametrize("ema", [None, 0.9])
@pytest.mark.parametrize("step", [1, 7, 8, 30])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, step, ema):
    config = dataclasses.replace(CONFIG, ema=ema)
    with pytest.raises(Stopped):
        run(tmp_path, config, report=stop_at(step))
    steps = []
    resumed, result = run(tmp_path, config, report=lambda p: steps.append(p.step))
    undisturbed, expected = run(None, config)
    assert same(bits(resumed), bits(undisturbed)) and steps == list(range(max(1, step), 31))
    assert (result.best_score, result.best_step) == (expected.best_score, expected.best_step)


def test_a_finished_run_is_not_run_again(tmp_path):
    first, result = run(tmp_path)
    again, second = run(tmp_path, report=stop_at(30))
    assert same(bits(first), bits(again)) and second == result


def test_the_two_latest_checkpoints_are_kept(folder):
    assert sorted(p.name for p in folder.iterdir()) == ["step-000000010.safetensors", "step-000000011.safetensors"]


def test_a_checkpoint_holds_everything(folder):
    snapshot = read_checkpoint(latest_checkpoint(folder))
    assert {name.split("/")[0] for name in snapshot.tensors} == {"model", "best", "average", "optimiser", "generator"}
    facts = snapshot.facts
    assert (facts["step"], facts["epoch"], facts["position"], facts["config"]) == (11, 2, 3, CONFIG.key)
    assert [h["step"] for h in facts["history"]] == [7] and facts["seed"] == 0


def test_a_half_written_checkpoint_is_never_loaded_and_is_swept_away(folder):
    whole = (folder / "step-000000011.safetensors").read_bytes()
    (folder / "step-000000012.tmp").write_bytes(whole[: len(whole) // 2])
    resumed, _ = run(folder)
    assert same(bits(resumed), bits(run(None)[0])) and not list(folder.glob("*.tmp"))


def test_a_write_that_fails_leaves_the_checkpoints_before_it(folder, monkeypatch):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    def full(handle):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        run(folder)
    assert before == {p.name: p.read_bytes() for p in folder.glob("*.safetensors")}


@pytest.mark.parametrize("place, name", [(os, "fsync"), (os, "replace"), (Path, "unlink")])
def test_a_write_may_break_off_anywhere(folder, monkeypatch, place, name):
    """Before the file is safe, before it has its name, before the old ones are removed."""

    def die(*arguments, **options):
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(place, name, die)
        run(folder)
    assert len(list(folder.glob("*.safetensors"))) >= 2
    assert same(bits(run(folder)[0]), bits(run(None)[0]))
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("size", [0, 4, 100, 0.5, 0.999])
def test_a_truncated_checkpoint_is_refused_and_the_error_says_what_to_do(folder, size):
    path = latest_checkpoint(folder)
    content = path.read_bytes()
    path.write_bytes(content[: int(size * len(content)) if isinstance(size, float) else size])
    with pytest.raises(CheckpointError, match="Delete this file to go on from step-000000010.safetensors"):
        run(folder)
    path.unlink()
    assert same(bits(run(folder)[0]), bits(run(None)[0]))


def test_every_flipped_bit_is_found(folder, seed):
    path = latest_checkpoint(folder)
    content, draw = path.read_bytes(), random.Random(seed)
    header = 8 + int.from_bytes(content[:8], "little")
    places = list(range(16)) + [draw.randrange(header) for _ in range(100)] + draw.choices(range(len(content)), k=100)
    for place in places:
        broken = bytearray(content)
        broken[place] ^= 1 << draw.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match="Checkpoint .*step-000000011"):
            read_checkpoint(path)


@pytest.mark.parametrize("field, value, error", [("version", "2", "schema version '2'"), ("format", "x", "is not a")])
def test_an_unknown_schema_is_refused(folder, field, value, error):
    path = latest_checkpoint(folder)
    with safe_open(path, "pt") as file:
        about, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    save_file(tensors, path, about | {field: value})
    with pytest.raises(CheckpointError, match=error):
        run(folder)


class Wider(Line):
    def __init__(self):
        super().__init__()
        self.more = nn.Parameter(torch.zeros(2))


@pytest.mark.parametrize(
    "other, error",
    [
        ({"config": dataclasses.replace(CONFIG, learning_rate=1e-3)}, "another run: config is"),
        ({"seed": 1}, "another run: seed is 0, not 1"),
        ({"rows": 65}, r"another run: rows is \[64, 20\]"),
        ({"model": Wider()}, "another model: `more` is absent"),
        ({"model": Line(dtype=torch.float32)}, "another model: `(weight|bias)` is torch.float64 of shape"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(folder, other, error):
    with pytest.raises(CheckpointError, match=f"({error}).*Pass the arguments of that run, or another folder"):
        run(folder, **other)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="must be a folder"):
        run(tmp_path / "file")


def test_tensors_of_every_shape_and_type_survive(tmp_path):
    shared = torch.arange(6.0)
    tensors = {
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "bool": torch.tensor([True, False]),
        "bf16": torch.ones(2, dtype=torch.bfloat16),
        "transposed": shared.view(2, 3).T,
        "view": shared[2:],
    }
    read = read_checkpoint(write_checkpoint(tmp_path, Snapshot({"step": 3, "x": [None, 0.1]}, tensors)))
    assert same(read.tensors, tensors) and read.facts == {"step": 3, "x": [None, 0.1]}


def test_a_folder_that_another_run_is_using_is_refused(tmp_path):
    def start_another(progress):
        with pytest.raises(CheckpointError, match=f"no other run is using. {tmp_path} is in use. Wait for that run"):
            run(tmp_path)

    run(tmp_path, report=start_another)


@pytest.mark.parametrize("step", [None, 12])
def test_a_run_that_ended_leaves_no_lock(tmp_path, step):
    with contextlib.suppress(Stopped):
        run(tmp_path, report=stop_at(step))
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(kills, tmp_path, seed):
    done = run_module("support.kill_and_resume", tmp_path, kills, seed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills, same bits" in done.stdout
