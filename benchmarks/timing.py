"""CPU time, the only clock worth reading on a busy machine."""

import statistics
import time
from collections.abc import Callable


def cpu_seconds(run: Callable, times: int) -> float:
    """Median over `times` runs, after one that does not count where there are enough of them."""
    if times > 2:
        run()
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)
