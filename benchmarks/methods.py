"""CPU time of the methods on one thread: a training epoch, and predictions.

    python benchmarks/methods.py

Prints two tables; exits with 1 if an epoch of NSAC takes more than 3 times that of GMLE.
"""

import sys
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from timing import cpu_seconds

from nsac.methods import METHODS, AbstractProblem, TableProblem, WindowProblem

ROWS, BATCH = 4096, 128
MAX_EPOCH_RATIO = 3.0
"""Largest time of an epoch of NSAC over that of GMLE."""


def epoch(name: str, problem: AbstractProblem, x: torch.Tensor, y: torch.Tensor) -> Callable:
    method, generator = METHODS[name](problem), torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW(method.parameters())

    def run():
        for start in range(0, len(x), BATCH):
            optimiser.zero_grad()
            method.loss({"x": x[start : start + BATCH], "y": y[start : start + BATCH]}, generator).backward()
            optimiser.step()

    return run


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    problems = {
        "table, 8 features": (TableProblem(8, 1), torch.randn(ROWS, 8), torch.randn(ROWS, 1)),
        "windows, 48 x 7 -> 24": (
            WindowProblem(7, 24, lookback=48),
            torch.randn(ROWS, 48, 7),
            torch.randn(ROWS, 24),
        ),
    }
    epochs = Table("method", *problems, title=f"Training epoch of {ROWS} rows, CPU ms")
    cost = {}
    for name in ("gmle", "nsac", "mcd", "de", "der", "sdenet"):
        times = [1e3 * cpu_seconds(epoch(name, *problem), 3) for problem in problems.values()]
        cost[name] = times
        epochs.add_row(name, *(f"{t:.0f}" for t in times))
    draws = Table("nsac, draws", "1", "5", "20", "20 / 1", title="Prediction of 1024 rows, CPU ms")
    for case, (problem, x, _) in problems.items():
        method = METHODS["nsac"](problem)
        times = [1e3 * cpu_seconds(lambda n=n, m=method, x=x: m.predict({"x": x[:1024]}, n), 31) for n in (1, 5, 20)]
        draws.add_row(case, *(f"{t:.1f}" for t in times), f"{times[2] / times[0]:.2f}")
    for table in (epochs, draws):
        Console().print(table)
    return int(any(n > MAX_EPOCH_RATIO * g for n, g in zip(cost["nsac"], cost["gmle"], strict=True)))


if __name__ == "__main__":
    sys.exit(main())
