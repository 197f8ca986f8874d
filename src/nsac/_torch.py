"""Settings of torch that results depend on: threads, default precision, gradients and automatic casts."""

import contextlib
import threading
from collections.abc import Iterator

import torch

_LOCK = threading.RLock()


@contextlib.contextmanager
def plain_autograd() -> Iterator[None]:
    """Gradients are computed and nothing is cast, whatever mode (`no_grad`, `inference_mode`, `autocast`) is active."""
    devices = ["cpu"]
    if torch.accelerator.is_available():
        devices.append(torch.accelerator.current_accelerator().type)  # pyright: ignore[reportOptionalMemberAccess]
    with contextlib.ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.enable_grad())
        for device in devices:
            modes.enter_context(torch.autocast(device, enabled=False))
        yield


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One thread, float32 by default and `plain_autograd`: results do not depend on the machine or the caller's modes.

    Threads and precision are settings of the whole process, so threads of the caller take turns.
    """
    with _LOCK:
        threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        try:
            with plain_autograd():
                yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
