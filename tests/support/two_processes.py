"""Train in several processes, and write gradients, weights and scores of the first one.

PYTHONPATH=tests python -m support.two_processes FOLDER DEVICES
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from nsac.training import TrainConfig, train
from support.training_problems import Line, Table, bits


def main(folder: Path, devices: int) -> None:
    """A plain mean loss, without noise: the mean over the joint batch is the mean of the means over equal halves."""
    model, found = Line(jitter=0), {}
    config = TrainConfig(
        max_steps=12, batch_size=16, devices=devices, accelerator="cpu", clip=None, validate_every=4, checkpoint_every=0
    )

    def report(progress):
        for name, parameter in model.named_parameters():
            found[f"{progress.step}/{name}.grad"] = parameter.grad.clone()
            found[f"{progress.step}/{name}"] = parameter.detach().clone()
        found[f"{progress.step}/loss"] = torch.tensor(progress.parts["loss"], dtype=torch.float64)

    def run():
        return train(model, Table(50), Table(21, seed=1), config, checkpoint=folder / "checkpoint", report=report)

    result = run()
    found["score"] = torch.tensor(result.best_score, dtype=torch.float64)
    first = bits(model)
    assert run().best_score == result.best_score  # resumed, in as many processes
    assert all(torch.equal(first[name], value) for name, value in bits(model).items())
    if found.keys() > {"score"}:  # only the first process gets reports
        save_file({n: t.contiguous() for n, t in found.items()}, folder / "found.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]))
