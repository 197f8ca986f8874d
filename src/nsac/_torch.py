"""Settings of torch that results depend on: threads and default precision."""

import contextlib
import threading
from collections.abc import Iterator

import torch

_LOCK = threading.RLock()


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One thread and float32 by default, so that results depend neither on the machine nor on the caller's settings.

    Both are settings of the whole process, so threads of the caller take turns.
    """
    with _LOCK:
        threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
