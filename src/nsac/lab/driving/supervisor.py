"""A supervisor that slows down, or hands over, when the uncertainty of a driving policy passes a threshold."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from nsac._checks import check_choice
from nsac.lab.driving.policy import Decision

if TYPE_CHECKING:
    from nsac.lab.driving.lap import Lap

AVERAGED_ACTIONS = 8
"""Actions over which the uncertainty is averaged, a third of a second: a single frame does not cause a reaction."""
THRESHOLD_LEVEL = 0.995
"""Quantile level of the threshold: share of the time without a reaction on laps like those of calibration."""
SLOW_SPEED = 25.0
"""Speed limit while the uncertainty is high."""
HAND_BACK_ACTIONS = 25
"""Actions below the threshold, one second, before the policy drives again."""
PEDAL_GAIN, MAX_EXCESS = 0.05, 8.0
"""Throttle and brake per unit of speed too low or too high, and the largest excess that is braked for."""

Reaction = Literal["slow", "hand over"]
REACTIONS: tuple[Reaction, ...] = get_args(Reaction)


class UncertaintySupervisor:
    """Lets a policy drive until its uncertainty, averaged over the last actions, passes a threshold.

    Args:
        threshold: of the total standard deviation of the steering.
        reaction: `"slow"`: the policy keeps steering, but no faster than `SLOW_SPEED`; `"hand over"`: the expert, which
            stands for a person, drives until the uncertainty has been below the threshold for a second.
    """

    def __init__(self, threshold: float, reaction: Reaction = "hand over"):
        check_choice("reaction", reaction, REACTIONS)
        self.threshold, self.reaction = threshold, reaction
        self.reset()

    def reset(self) -> None:
        """Begin a new lap."""
        self._latest: deque[float] = deque(maxlen=AVERAGED_ACTIONS)
        self._below = HAND_BACK_ACTIONS

    def choose_action(self, decision: Decision, speed: float, expert: np.ndarray) -> tuple[np.ndarray, str]:
        """The policy's action, or that of the reaction, and which of them it is."""
        self._latest.append(decision.steering_std)
        full = len(self._latest) == AVERAGED_ACTIONS
        self._below = 0 if full and np.mean(self._latest) > self.threshold else self._below + 1
        if self._below >= HAND_BACK_ACTIONS:
            return decision.action, "drive"
        if self.reaction == "hand over":
            return expert, "hand over"
        return limit_speed(decision.action, speed), "slow"


def limit_speed(action: np.ndarray, speed: float) -> np.ndarray:
    """The same steering, with throttle and brake that keep to `SLOW_SPEED`."""
    steering, throttle, brake = action
    excess = speed - SLOW_SPEED
    if excess > 0:
        brake = max(brake, PEDAL_GAIN * min(excess, MAX_EXCESS))
    return np.array([steering, min(throttle, max(0.0, -PEDAL_GAIN * excess)), brake])


def moving_average(std: np.ndarray) -> np.ndarray:
    """Means over `AVERAGED_ACTIONS` consecutive actions, as a supervisor computes them."""
    if len(std) < AVERAGED_ACTIONS:
        return np.empty(0)
    return np.convolve(std, np.full(AVERAGED_ACTIONS, 1 / AVERAGED_ACTIONS), "valid")


def calibrate_threshold(laps: "Sequence[Lap]", level: float = THRESHOLD_LEVEL) -> float:
    """The uncertainty that held-out laps exceed for at most 1 - `level` of the time.

    The rank is that of split conformal prediction, so the guarantee carries over to another lap of the same kind, as
    far as the actions of a lap can be treated as independent.
    """
    found = np.sort(np.concatenate([moving_average(lap.steering_std[: lap.on_road]) for lap in laps]))
    if not len(found):
        raise ValueError(f"`laps` must have at least {AVERAGED_ACTIONS} actions on the road. Got none instead.")
    return float(found[min(int(np.ceil(level * (len(found) + 1))), len(found)) - 1])


def would_react(lap: "Lap", threshold: float) -> bool:
    """Whether a supervisor would have acted on a lap that was driven without one."""
    return bool((moving_average(lap.steering_std) > threshold).any())
