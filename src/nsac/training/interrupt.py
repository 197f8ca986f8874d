"""Ctrl-C that waits for the end of a step."""

import signal
import threading
from types import FrameType


class HeldInterrupt:
    """Within this context a first Ctrl-C only sets `asked`; a second one interrupts at once.

    Outside the main thread, where Python allows no signal handlers, it does nothing.
    """

    asked = False

    def __enter__(self) -> "HeldInterrupt":
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is not None:  # None: set outside Python, and could not be put back
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind, *exception) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self.asked and kind is None:
            raise KeyboardInterrupt  # it came too late to be noticed inside

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
