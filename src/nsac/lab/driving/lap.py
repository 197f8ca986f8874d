"""Closed-loop driving: a policy and a car on a track, lap by lap, and the measures of a lap."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from nsac.lab.driving.expert import Expert
from nsac.lab.driving.policy import Decision, FrameHistory
from nsac.lab.driving.supervisor import UncertaintySupervisor
from nsac.lab.driving.world import DONE, PLAIN, Colours, Track, World

MAX_ACTIONS = 1200
"""Actions of a lap at most, about three times what the expert needs."""
MAX_OFF_ROAD_ACTIONS = 50
"""Consecutive actions off the road, 2 seconds, after which a lap ends."""

Stopwatch = Callable[[World, Decision, str], None]
"""Called before each action with the world, the decision and who decided."""
_Drive = Generator[np.ndarray, Decision | None, "Lap"]
"""Yields the latest frames and receives decisions, None for the expert's; returns the lap."""


class Policy(Protocol):
    """Chooses the action in each of several laps from their latest frames alone, (laps, lookback, 84, 84)."""

    @property
    def lookback(self) -> int: ...  # noqa: D102
    def decide(self, frames: np.ndarray) -> list[Decision]: ...  # noqa: D102


@dataclass(frozen=True)
class Lap:
    """One lap, action by action."""

    seed: int
    colours: Colours
    finished: bool  # whether 95 % of the tiles were visited
    visited: float  # share of the tiles
    track: np.ndarray  # (points, 2), centreline
    half_width: float
    seconds: float  # of one action
    positions: np.ndarray  # (n, 2)
    distances: np.ndarray  # (n,), to the centreline
    speeds: np.ndarray
    actions: np.ndarray  # (n, 3), steering, throttle and brake, as the policy chose them
    expert: np.ndarray  # (n, 3), the expert's actions in the same states
    aleatoric: np.ndarray
    epistemic: np.ndarray  # (n, 3), variances
    modes: tuple[str, ...]  # who decided: `"drive"`, or the reaction of a supervisor

    def __len__(self) -> int:
        return len(self.distances)

    @property
    def steering_std(self) -> np.ndarray:
        """(n,), total standard deviation of the steering."""
        return np.sqrt(self.aleatoric[:, 0] + self.epistemic[:, 0])

    @property
    def on_road(self) -> int:
        """Number of actions before the car left the road for good; all of them if it did not."""
        off = self.distances > self.half_width
        if self.finished or not off[-1]:
            return len(self)
        return int(np.flatnonzero(~off)[-1]) + 1 if (~off).any() else 0

    @property
    def shares(self) -> np.ndarray:
        """(n,), how far along the track each position is, 0 to 1."""
        line = Track(self.track, self.half_width)
        along = [line.project(position)[0] / line.length for position in self.positions]
        return np.unwrap(along, period=1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in asdict(self).items()}

    def measures(self) -> dict[str, float]:
        """Numbers of the lap; uncertainties are means until the car left the road for good.

        `doubt`, a name that records keep, is the total standard deviation of the steering; `aleatoric` and `epistemic`
        are standard deviations too.
        """
        n = max(self.on_road, 1)
        return {
            "finished": float(self.finished),
            "visited": self.visited,
            "seconds": len(self) * self.seconds,
            "distance": float(self.distances.mean()),
            "distance_max": float(self.distances.max()),
            "off_road": float((self.distances > self.half_width).mean()),
            "speed": float(self.speeds.mean()),
            "steering_error": float(np.abs(self.actions[:, 0] - self.expert[:, 0]).mean()),
            "steering_change": float(np.abs(np.diff(self.actions[:, 0])).mean()) if len(self) > 1 else 0.0,
            "doubt": float(self.steering_std[:n].mean()),
            "aleatoric": float(np.sqrt(self.aleatoric[:n, 0]).mean()),
            "epistemic": float(np.sqrt(self.epistemic[:n, 0]).mean()),
            "contrast": self.colours.contrast,
        }


@dataclass(frozen=True)
class Start:
    """Initial conditions of a lap."""

    seed: int  # of the track
    colours: Colours = PLAIN
    supervisor: UncertaintySupervisor | None = None  # may replace the actions of the policy
    watch: Stopwatch | None = None  # called before each action


def drive_lap(
    world: World,
    policy: Policy | None,
    seed: int,
    colours: Colours = PLAIN,
    supervisor: UncertaintySupervisor | None = None,
    watch: Stopwatch | None = None,
    limit: int = MAX_ACTIONS,
) -> Lap:
    """A lap, until 95 % of the tiles are visited, the car is off the road for two seconds, or the time is up."""
    return drive_laps([world], policy, [Start(seed, colours, supervisor, watch)], limit=limit)[0]


def drive_laps(
    worlds: Sequence[World],
    policy: Policy | None,
    starts: Sequence[Start],
    report: Callable[[Lap], None] = lambda lap: None,
    limit: int = MAX_ACTIONS,
) -> list[Lap]:
    """Many laps, as many at a time as there are worlds: a batch of decisions costs little more than one.

    A world whose lap has ended takes the next. Without a policy the expert drives, which uses the track. `report` is
    called with each lap when it ends, and a lap has at most `limit` actions.
    """
    waiting, laps = list(enumerate(starts))[::-1], {}
    lookback = 1 if policy is None else policy.lookback

    def begin(world: World) -> tuple[int, World, _Drive, np.ndarray]:
        number, start = waiting.pop()
        drive = _drive(world, start, lookback, limit)
        return number, world, drive, next(drive)

    running = [begin(world) for world in worlds[: len(starts)]]
    while running:
        frames = np.stack([latest for *_, latest in running])
        decisions = [None] * len(running) if policy is None else policy.decide(frames)
        remaining = []
        for (number, world, drive, _), decision in zip(running, decisions, strict=True):
            try:
                remaining.append((number, world, drive, drive.send(decision)))
            except StopIteration as end:
                laps[number] = end.value
                if waiting:
                    remaining.append(begin(world))
                report(end.value)
        running = remaining
    return [laps[number] for number in range(len(laps))]


def _drive(world: World, start: Start, lookback: int, limit: int) -> _Drive:
    frame, rows, off_road = world.start(start.seed, start.colours), [], 0
    history = FrameHistory(lookback)
    expert = Expert(world)
    if start.supervisor is not None:
        start.supervisor.reset()
    while world.visited < DONE and not world.over and off_road < MAX_OFF_ROAD_ACTIONS and len(rows) < limit:
        advice = expert.act()
        decision = (yield history.add(frame)) or Decision(advice, np.zeros(3), np.zeros(3))
        action, mode = decision.action, "drive"
        if start.supervisor is not None:
            action, mode = start.supervisor.choose_action(decision, world.speed, advice)
        if start.watch is not None:
            start.watch(world, decision, mode)
        _, distance = world.track.project(world.position)
        off_road = off_road + 1 if distance > world.track.half_width else 0
        state = world.position, distance, world.speed
        rows.append((*state, decision.action, advice, decision.aleatoric, decision.epistemic, mode))
        frame = world.step(action)
    *columns, modes = zip(*rows, strict=True)
    track, visited = world.track, world.visited
    about = start.seed, start.colours, visited >= DONE, visited, track.points, track.half_width, world.seconds
    values: list[Any] = [*about, *map(np.array, columns), modes]  # in the order of the fields
    return Lap(*values)
