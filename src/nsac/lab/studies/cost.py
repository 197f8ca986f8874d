"""Study of the time, memory and size of all methods at a thousand observations: the paper's Table 4."""

import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from nsac.lab.grid.run import peak_memory, reset_peak_memory
from nsac.lab.grid.sheet import Sheet, Spread
from nsac.lab.grid.table import paper_table
from nsac.lab.studies.base import Found, Outcome, Study
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
    model, predict = build(config)
    taken = measure(predict, 2, config)
    parameters = float(sum(parameter.numel() for parameter in model.parameters()))
    return Outcome({**taken, "throughput": 1 / taken["seconds"], "parameters": parameters})


@torch.no_grad()
def measure(predict: Predict, input_dim: int, config: dict[str, Any]) -> dict[str, float]:
    """Memory and CPU seconds of a prediction of one random sequence, in a process that does nothing else.

    `memory` is the peak of the first pass minus what the process held before, in megabytes. `seconds` is the mean over
    the later passes and `seconds_std` its standard deviation; if there is only the first pass, `seconds` is its time.
    `config` has the `length` and the `seed` of the sequence, the maximum number `passes` of later passes, and the
    total seconds `enough`, after which no further pass starts.
    """
    x = torch.randn(1, config["length"], input_dim, generator=torch.Generator().manual_seed(config["seed"]))
    predict(x[:, :WARM_UP_LENGTH])
    with contextlib.suppress(OSError, AttributeError):  # the C library is not glibc
        ctypes.CDLL(None).malloc_trim(0)  # a pass that reuses freed memory would not raise the peak
    reset_peak_memory()
    before, later = peak_memory(), []  # the peak after a reset is what the process holds

    def timed() -> float:
        start = time.process_time()
        predict(x)
        return time.process_time() - start

    first = timed()
    memory = max(0.0, peak_memory() - before)
    while len(later) < config["passes"] and first + sum(later) <= config["enough"]:
        later.append(timed())
    times = later or [first]
    std = statistics.stdev(times) if len(times) > 1 else 0.0
    return {"seconds": statistics.mean(times), "seconds_std": std, "passes": float(len(times)), "memory": memory}


def _our_method(config: dict[str, Any]) -> tuple[nn.Module, Predict]:
    """A method after one training step; weights do not change the cost."""
    task = load_task("spiral", "sound", config["seed"])
    problem = replace(task.problem, network=NetworkConfig(**{name: config[name] for name in SIZES}))
    options = {"members": config["members"]} if config["method"] == "de" else {}
    method = METHODS[config["method"]](problem, seed=config["seed"], **options)  # pyright: ignore[reportCallIssue]
    training = TrainConfig(max_steps=1, batch_size=8, validate_every=1, accelerator="cpu")
    fit(method, task.train, task.validation, training, seed=config["seed"])

    def predict(x: Tensor) -> None:
        times = torch.linspace(0, 1, x.shape[1]).expand(len(x), -1)
        method.predict({"x": x, "times": times, "query_times": times}, config["draws"])

    return method, predict


def _authors_model(config: dict[str, Any]) -> tuple[nn.Module, Predict]:
    if not find_spec("torch_nac"):
        raise ModuleNotFoundError("torch-nac is not installed. Install the extra: pip install 'nsac[race]'.")
    from torch_nac.layers import NAC, OUWrap
    from torch_nac.models import NSAC

    attention = NAC(**{name: config[name] for name in SIZES}, input_dim=2)
    layer = OUWrap(attention, output_dim=2, return_sequences=True)
    model = NSAC(layer, mc_samples=config["draws"], ood_std=5.0)
    return model, model.predict


def sheets(found: Found) -> list[Sheet]:
    """One row per method: our numbers, then the paper's."""
    paper, rows, names = paper_table("table_4"), [], ("throughput", "memory", "parameters")
    nsac_seconds = next((r.metrics["seconds"] for s, r in found if s.config["method"] == "nsac"), None)
    for setting, record in found:
        method, metrics = setting.config["method"], record.metrics
        seconds, printed = metrics["seconds"], paper.get(method, {})
        ratio = None if not nsac_seconds or seconds is None else seconds / nsac_seconds
        ours = [Spread(seconds, metrics["seconds_std"]), ratio, *(metrics[name] for name in names)]
        theirs = [Spread(*printed["seconds"]) if printed else None, *(printed.get(name) for name in names)]
        rows.append((method, *ours, *theirs))
    units = ("seq/s", "MB", "params")
    head = ("method", "s", "ratio", *units, *(f"{unit}, paper" for unit in ("s", *units)))
    return [Sheet("Prediction of one sequence of 1000 observations at all observation times", head, rows, _NOTE)]


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
