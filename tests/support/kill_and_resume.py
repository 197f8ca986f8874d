"""Kill a training run at random moments, let it resume, and compare with an uninterrupted one.

The run is forked from a process that has imported everything, so that kills hit training and not the imports.

    PYTHONPATH=tests python -m support.kill_and_resume FOLDER KILLS SEED
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import lightning_fabric  # noqa: F401  (imported before the fork: it is slow)
import torch
from safetensors.torch import load_file, save_file

from nsac.training import TrainConfig, train
from support.training_problems import Line, Table, bits, same

CONFIG = TrainConfig(max_steps=100, batch_size=16, validate_every=7, checkpoint_every=0.0, ema=0.9)


class Slow(Line):
    """Slow enough that some kills hit a step and some the writing of a checkpoint."""

    def loss(self, batch, generator):
        time.sleep(0.002)
        return super().loss(batch, generator)


def work(folder: Path, result: Path) -> int:
    """Train in a child process; returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        torch.set_num_threads(1)
        model = Slow()
        train(model, Table(), Table(20, seed=1), CONFIG, checkpoint=folder)
        save_file(bits(model), result)
        os._exit(0)
    finally:
        os._exit(1)


def ended(child: int) -> bool:
    done, status = os.waitpid(child, os.WNOHANG)
    if done and status:
        sys.exit(f"the run failed by itself, status {status}")
    return bool(done)


def main(folder: Path, kills: int, seed: int) -> None:
    draw = random.Random(seed)
    undisturbed, disturbed = folder / "undisturbed.safetensors", folder / "disturbed.safetensors"
    os.waitpid(work(folder / "a", undisturbed), 0)
    made = writing = rounds = 0
    where = folder / "b"
    while made < kills:
        child = work(where, disturbed)
        time.sleep(0.03 + draw.random() * 0.1)
        if ended(child):  # the run ended before the last kill: start another one
            assert same(load_file(undisturbed), load_file(disturbed)), "other bits"
            rounds += 1
            where = folder / f"b{rounds}"
            continue
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        made += 1
        writing += bool(list(where.glob("*.tmp")))
    os.waitpid(work(where, disturbed), 0)
    assert same(load_file(undisturbed), load_file(disturbed)), "other bits"
    print(f"{made} kills, same bits; {writing} while writing, {rounds + 1} runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
