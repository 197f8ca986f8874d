"""Deferred handling of Ctrl-C: it takes effect at the end of a step."""

import signal
import threading
from types import FrameType


class DeferredInterrupt:
    """In this context the first Ctrl-C only sets `requested`; the second one interrupts immediately.

    Outside the main thread, where Python allows no signal handlers, it does nothing.
    """

    requested = False

    def __enter__(self) -> "DeferredInterrupt":
        self._previous = None
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.getsignal(signal.SIGINT)
            if self._previous is not None:  # None: not set from Python, so it could not be restored
                signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if self.requested and kind is None:
            raise KeyboardInterrupt  # it came after the last check inside the context

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
