"""What the uncertainty is for: a supervisor that slows down, or hands over, when the pilot is not sure."""

from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np

from nsac._checks import check_choice
from nsac.lab.driving.lap import Lap
from nsac.lab.driving.pilot import Decision

SPAN = 8
"""Actions over which doubt is averaged, a third of a second: one odd frame is no reason to stop."""
LEVEL = 0.995
"""Share of the time that a pilot may drive on its own on laps like those of calibration."""
CREEP = 25.0
"""Speed of a car that is not sure."""
PATIENCE = 25
"""Actions without doubt, one second, before the pilot has the wheel again."""

Reaction = Literal["slow", "hand over"]


class DoubtSupervisor:
    """Lets a pilot drive until its doubt, averaged over the last actions, passes a threshold.

    Args:
        threshold: of the total standard deviation of the steering.
        reaction: `"slow"`: the pilot steers on, but no faster than `CREEP`; `"hand over"`: somebody who can see drives
            until the pilot has been sure for a second. In the simulator that is the expert.
    """

    def __init__(self, threshold: float, reaction: Reaction = "hand over"):
        check_choice("reaction", reaction, ("slow", "hand over"))
        self.threshold, self.reaction = threshold, reaction
        self.forget()

    def forget(self) -> None:
        """A new lap begins."""
        self._latest: deque[float] = deque(maxlen=SPAN)
        self._sure = PATIENCE

    def allow(self, decision: Decision, speed: float, expert: np.ndarray) -> tuple[np.ndarray, str]:
        """The pilot's action, or another one."""
        self._latest.append(decision.doubt)
        full = len(self._latest) == SPAN
        self._sure = 0 if full and np.mean(self._latest) > self.threshold else self._sure + 1
        if self._sure >= PATIENCE:
            return decision.action, "drive"
        if self.reaction == "hand over":
            return expert, "hand over"
        return slowed(decision.action, speed), "slow"


def slowed(action: np.ndarray, speed: float, limit: float = CREEP) -> np.ndarray:
    """The same steering, with pedals that keep to a speed."""
    too_fast = speed - limit
    gas = min(action[1], max(0.0, -0.05 * too_fast))
    return np.array([action[0], gas, max(action[2], 0.05 * min(too_fast, 8.0)) if too_fast > 0 else action[2]])


def averaged(doubt: np.ndarray) -> np.ndarray:
    """Means over `SPAN` actions, as a supervisor sees them."""
    return np.convolve(doubt, np.full(SPAN, 1 / SPAN), "valid") if len(doubt) >= SPAN else np.empty(0)


def calibrate_threshold(laps: Sequence[Lap], level: float = LEVEL) -> float:
    """The doubt that held-out laps pass for at most 1 - `level` of the time.

    The rank is taken as in split conformal prediction, so the promise holds for a new lap of the same kind, as far as
    moments of a lap can be taken for independent.
    """
    seen = np.sort(np.concatenate([averaged(lap.doubt[: lap.on_road]) for lap in laps]))
    if not len(seen):
        raise ValueError(f"`laps` must have {SPAN} actions on the road at least. Got none instead.")
    return float(seen[min(int(np.ceil(level * (len(seen) + 1))), len(seen)) - 1])


def would_react(lap: Lap, threshold: float) -> bool:
    """Whether a supervisor would have changed anything about a lap driven without one."""
    return bool((averaged(lap.doubt) > threshold).any())
