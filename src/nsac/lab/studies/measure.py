"""CPU seconds and peak memory of a call, in a process that does nothing else."""

import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from nsac.lab.grid.run import peak_memory, reset_peak_memory


def measure(call: Callable[[], object], passes: int, enough: float) -> dict[str, float]:
    """Memory and CPU seconds of a call.

    `memory` is the peak of the first call minus what the process held before, in megabytes. `seconds` is the mean over
    the later calls and `seconds_std` its standard deviation; if there is only the first call, `seconds` is its time.

    Args:
        call: must have run once on small inputs, so that no library is loaded during the measurement.
        passes: maximum number of later calls.
        enough: total seconds after which no further call starts.
    """
    release_freed_memory()
    reset_peak_memory()
    before, taken = _resident_memory(), []
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


def release_freed_memory() -> None:
    """Return freed memory to the system; otherwise a call that reuses it would not raise the peak."""
    with contextlib.suppress(OSError, AttributeError):  # the C library is not glibc
        ctypes.CDLL(None).malloc_trim(0)


def _resident_memory() -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
    return peak_memory()
