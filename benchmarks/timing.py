"""CPU time, which unlike wall time does not depend on other processes."""

import statistics
import time
from collections.abc import Callable


def cpu_seconds(run: Callable, runs: int) -> float:
    """Median over `runs` runs, after a warm-up run if there are more than two."""
    if runs > 2:
        run()
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)
