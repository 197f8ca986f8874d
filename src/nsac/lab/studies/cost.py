"""Study of the time, memory and size of all methods at a thousand observations: the paper's Table 4."""

from collections.abc import Callable
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
"""Sizes of the network that all methods share."""

AUTHORS_PACKAGE = "torch-nac"
"""The package of the paper's authors. It is optional and used only here."""

WARM_UP_LENGTH = 32
"""Observations of the untimed pass that loads libraries."""

Predict = Callable[[Tensor], object]


def run(config: dict[str, Any]) -> Outcome:
    """Predict one sequence at all of its observation times."""
    build = _authors_model if config["method"] == AUTHORS_PACKAGE else _our_method
    parameters, predict = build(config)
    generator = torch.Generator().manual_seed(config["seed"])
    x = torch.randn(1, config["length"], 2, generator=generator)
    with torch.no_grad():
        predict(x[:, :WARM_UP_LENGTH])
        taken = measure(lambda: predict(x), config["passes"], config["enough"])
    return Outcome({**taken, "throughput": 1 / taken["seconds"], "parameters": float(parameters)})


def _our_method(config: dict[str, Any]) -> tuple[int, Predict]:
    """Number of parameters and prediction of a method after one training step; weights do not change the cost."""
    task = load_task("spiral", "sound", config["seed"])
    problem = replace(task.problem, network=NetworkConfig(**{name: config[name] for name in SIZES}))
    options = {"members": config["members"]} if config["method"] == "de" else {}
    method = METHODS[config["method"]](problem, seed=config["seed"], **options)  # pyright: ignore[reportCallIssue]
    training = TrainConfig(max_steps=1, batch_size=8, validate_every=1, accelerator="cpu")
    fit(method, task.train, task.validation, training, seed=config["seed"])

    def predict(x: Tensor) -> None:
        times = torch.linspace(0, 1, x.shape[1]).expand(len(x), -1)
        method.predict({"x": x, "times": times, "query_times": times}, config["draws"])

    return sum(parameter.numel() for parameter in method.parameters()), predict


def _authors_model(config: dict[str, Any]) -> tuple[int, Predict]:
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
    """One row per method: our numbers, then the paper's."""
    paper, rows = paper_table("table_4"), []
    nsac_seconds = next((r.metrics["seconds"] for s, r in found if s.config["method"] == "nsac"), None)
    for setting, record in found:
        method, metrics = setting.config["method"], record.metrics
        seconds = metrics["seconds"]
        ratio = None if not nsac_seconds or seconds is None else seconds / nsac_seconds
        printed = paper.get(method, {})
        rows.append(
            (
                method,
                Spread(seconds, metrics["seconds_std"]),
                ratio,
                metrics["throughput"],
                metrics["memory"],
                metrics["parameters"],
                Spread(*printed["seconds"]) if printed else None,
                printed.get("throughput"),
                printed.get("memory"),
                printed.get("parameters"),
            )
        )
    return [Sheet("Prediction of one sequence of 1000 observations at all observation times", _HEAD, rows, _NOTE)]


_HEAD = (
    "method", "s", "ratio", "seq/s", "MB", "params", "s, paper", "seq/s, paper", "MB, paper", "params, paper",
)  # fmt: skip
_NOTE = (
    "Times (s) are CPU seconds of one thread, mean and standard deviation of five passes; each method runs in its own "
    "process. Ratio is the time relative to nsac. MB is the peak memory of a prediction minus the memory that the "
    "process held before. Params is the number of parameters. torch-nac is the package of the paper's authors, its "
    "NSAC at the same sizes; it is measured if the extra `race` is installed. The paper's numbers are from a T4 GPU. "
    "They cannot be compared with ours, only with each other: the paper's ensemble has the throughput and the "
    "parameters of one network but takes nearly three times as long, and one sequence in 39 s would be 0.026 per "
    "second, not 0.07."
)

STUDY = Study("cost", "Time, memory and size", "Table 4", "", run, sheets, apart=True)
