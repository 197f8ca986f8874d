"""Time, memory and size of all methods at a thousand observations: the paper's Table 4."""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from nsac.lab.grid.sheet import Sheet, Spread
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Found, Outcome, Study
from nsac.lab.studies.measure import measure
from nsac.lab.tasks.base import load_task
from nsac.methods import METHODS, fit
from nsac.models import NetworkConfig
from nsac.training import TrainConfig

SIZES = ("d_model", "num_heads", "topk", "sparsity")
RIVAL = "torch-nac"
"""The authors' own package; it is not needed, and is asked only here."""

SMALL = 32
"""Observations of the pass that loads libraries."""


def run(config: dict[str, Any]) -> Outcome:
    """Predict one sequence at all of its times."""
    build = _rival if config["method"] == RIVAL else _ours
    parameters, predict = build(config)
    generator = torch.Generator().manual_seed(config["seed"])
    x = torch.randn(1, config["length"], 2, generator=generator)
    with torch.no_grad():
        predict(x[:, :SMALL])
        taken = measure(lambda: predict(x), config["passes"], config["enough"])
    return Outcome({**taken, "throughput": 1 / taken["seconds"], "parameters": float(parameters)})


def _ours(config: dict[str, Any]):
    """A method after one step on spirals: what it learns does not change what it costs, but it must be whole."""
    task = load_task("spiral", "sound", config["seed"])
    problem = replace(task.problem, network=NetworkConfig(**{name: config[name] for name in SIZES}))
    more = {"members": config["members"]} if config["method"] == "de" else {}
    method = METHODS[config["method"]](problem, seed=config["seed"], **more)  # pyright: ignore[reportCallIssue]
    training = TrainConfig(max_steps=1, batch_size=8, validate_every=1, accelerator="cpu")
    fit(method, task.train, task.validation, training, seed=config["seed"])

    def predict(x: Tensor) -> None:
        times = torch.linspace(0, 1, x.shape[1]).expand(len(x), -1)
        method.predict({"x": x, "times": times, "query_times": times}, config["draws"])

    return sum(parameter.numel() for parameter in method.parameters()), predict


def _rival(config: dict[str, Any]):
    if not find_spec("torch_nac"):
        raise ModuleNotFoundError("torch-nac is not installed. Install the extra: pip install 'nsac[race]'.")
    from torch_nac.layers import NAC, OUWrap
    from torch_nac.models import NSAC

    sizes = {name: config[name] for name in SIZES}
    model = NSAC(
        OUWrap(NAC(**sizes, input_dim=2), output_dim=2, return_sequences=True), mc_samples=config["draws"], ood_std=5.0
    )
    return sum(parameter.numel() for parameter in model.parameters()), model.predict


def sheets(found: Found) -> list[Sheet]:
    """A row per method, the paper's numbers behind ours."""
    paper, rows = paper_table("table_4"), []
    ours = next((r.metrics["seconds"] for s, r in found if s.config["method"] == "nsac"), None)
    for setting, record in found:
        name, m = setting.config["method"], record.metrics
        theirs = paper.get(name, {})
        printed = [theirs.get(column) for column in ("throughput", "memory", "parameters")]
        seconds, ratio = m["seconds"], None if not ours or m["seconds"] is None else m["seconds"] / ours
        told = Spread(*theirs["seconds"]) if theirs else None
        rows.append(
            (
                name,
                Spread(seconds, m["seconds_std"]),
                ratio,
                m["throughput"],
                m["memory"],
                m["parameters"],
                told,
                *printed,
            )
        )
    head = ("method", "seconds", "of nsac's", "sequences/s", "MB", "parameters")
    return [
        Sheet(
            "One sequence of 1000 observations, asked at all their times",
            (*head, "s, paper", "seq/s, paper", "MB, paper", "parameters, paper"),
            rows,
            _NOTE,
        )
    ]


_NOTE = (
    "CPU seconds of one thread, mean and deviation of five passes, each method in a process of its own. MB: what a "
    "prediction took at most beyond what the process held before. torch-nac is the authors' package, its NSAC at the "
    "same sizes; it is there if the extra `race` is installed. The paper's numbers are from a T4 GPU and are not to be "
    "compared with ours, but with each other: its ensemble has the throughput and the parameters of one network, but "
    "takes nearly three times as long; one sequence in 39 s would be 0.026 per second, not 0.07."
)

STUDY = Study("cost", "Time, memory and size", "Table 4", "", run, sheets, apart=True)
