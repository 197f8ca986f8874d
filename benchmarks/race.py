"""Speed comparison with `torch-nac` 0.0.2 in one process, on one thread, by CPU time. Needs the extra `race`.

    python benchmarks/race.py

Prints a table; exits with 1 if a ratio is below its minimum.
"""

import statistics
import sys
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from timing import cpu_seconds
from torch_nac.layers import NAC as RivalNAC
from torch_nac.layers import OUWrap
from torch_nac.losses.losses import NSACLoss as RivalLoss
from torch_nac.models import NSAC as RivalNSAC

from nsac import NSAC, NSACLoss

SIZE = {"d_model": 64, "num_heads": 16, "topk": 8, "sparsity": 0.5}
SAMPLES = 5


def rival(input_dim: int, output_dim: int, every: bool) -> RivalNSAC:
    return RivalNSAC(
        OUWrap(RivalNAC(**SIZE, input_dim=input_dim), output_dim=output_dim, return_sequences=every),
        mc_samples=SAMPLES,
        ood_std=5.0,
    )


def inference(every: bool) -> tuple[Callable, Callable]:
    x = torch.randn(1, 1000, 3)
    layer, other = NSAC(3, 2, **SIZE, readout="all" if every else "last"), rival(3, 2, every)

    @torch.no_grad()
    def theirs():
        other.predict(x)

    return lambda: layer.predict(x, num_samples=SAMPLES), theirs


def training() -> tuple[Callable, Callable]:
    x, y = torch.randn(64, 48, 7), torch.randn(64, 24)
    # Every row gets a surrogate, as in `torch-nac`, so that both do the same work.
    layer, loss = NSAC(7, 24, **SIZE), NSACLoss(ood_fraction=1.0)
    other, other_loss = rival(7, 24, False), RivalLoss()
    ours_opt = torch.optim.AdamW(layer.parameters())
    theirs_opt = torch.optim.AdamW(other.parameters())

    def ours():
        ours_opt.zero_grad()
        loss(layer, x, y).backward()
        ours_opt.step()

    def theirs():
        theirs_opt.zero_grad()
        other.compute_loss(x, y, other_loss)[0].backward()
        theirs_opt.step()

    return ours, theirs


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = Table("case", "nsac (ms)", "torch-nac (ms)", "ratio", "minimum", title="CPU time, one thread")
    slow = False
    for case, (ours, theirs), runs, minimum in (
        ("inference, T = 1000, last", inference(False), (51, 3), 2000),
        ("inference, T = 1000, all", inference(True), (15, 3), 40),
        ("training step, 64 x 48 x 7 -> 24", training(), (21, 2), 500),
    ):
        before = cpu_seconds(ours, runs[0])
        other = cpu_seconds(theirs, runs[1])
        mine = statistics.mean(
            [before, cpu_seconds(ours, runs[0])]
        )  # before and after, because the speed of the machine drifts
        slow |= other / mine < minimum
        table.add_row(case, f"{mine * 1e3:.2f}", f"{other * 1e3:.0f}", f"{other / mine:.0f}x", f"{minimum}x")
    Console().print(table)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
