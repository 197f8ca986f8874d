"""Seconds and memory of a call, in a process where nothing else happens."""

import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from nsac.lab.grid.run import forget_peak, peak_memory


def measure(call: Callable[[], object], passes: int, enough: float) -> dict[str, float]:
    """Memory and CPU seconds.

    `memory` is what the first call took at most beyond what the process held before, in megabytes. `seconds` is the
    mean over the later calls with its `seconds_std`, or of the first if it is the only one.

    Args:
        call: should have been done once on a small scale, so that no library is loaded while it is measured.
        passes: later calls.
        enough: seconds in all after which no other call is begun.
    """
    give_back()
    forget_peak()
    before, taken = _held(), []
    start = time.process_time()
    call()
    first = time.process_time() - start
    memory = max(0.0, peak_memory() - before)
    for _ in range(passes):
        if first + sum(taken) > enough:
            break
        begin = time.process_time()
        call()
        taken.append(time.process_time() - begin)
    times = taken or [first]
    std = statistics.stdev(times) if len(times) > 1 else 0.0
    return {"seconds": statistics.mean(times), "seconds_std": std, "passes": float(len(times)), "memory": memory}


def give_back() -> None:
    """Return freed memory to the system, or the next peak would not show what it takes again."""
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _held() -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
    return peak_memory()
