"""Closed loop: a driver and a car on a track, and what is to be said about the lap."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np

from nsac.lab.driving.expert import Expert
from nsac.lab.driving.pilot import Decision, Memory
from nsac.lab.driving.track import Track
from nsac.lab.driving.world import DONE, PLAIN, Colours, World

LIMIT = 1200
"""Actions of a lap at most, some three times what the expert needs."""
LOST = 50
"""Actions off the road in a row, 2 seconds, after which a lap is over."""


class Driver(Protocol):
    """Whoever decides by frames alone."""

    @property
    def length(self) -> int:
        """How many of the latest frames it sees."""
        ...

    def decide(self, frames: np.ndarray) -> list[Decision]:
        """What to do in each of several laps, by their latest frames, (laps, length, 84, 84)."""
        ...


class Supervisor(Protocol):
    """Whoever may change what a driver wants."""

    def forget(self) -> None:
        """A new lap begins."""
        ...

    def allow(self, decision: Decision, speed: float, expert: np.ndarray) -> tuple[np.ndarray, str]:
        """The action to take, and who or what decided it."""
        ...


@dataclass(frozen=True)
class Lap:
    """What happened, action by action."""

    seed: int
    colours: Colours
    finished: bool
    """whether 95 % of the tiles were visited"""
    visited: float
    """share of the tiles"""
    track: np.ndarray
    """(points, 2), centreline"""
    half_width: float
    seconds: float
    """of one action"""
    positions: np.ndarray
    """(n, 2)"""
    distances: np.ndarray
    """(n,), to the centreline"""
    speeds: np.ndarray
    actions: np.ndarray
    """(n, 3), steering, gas and brake, as the driver wanted"""
    expert: np.ndarray
    """(n, 3), what the expert would have done"""
    aleatoric: np.ndarray
    epistemic: np.ndarray
    """(n, 3), variances"""
    modes: tuple[str, ...]
    """who decided: `"drive"`, or what a supervisor did"""

    def __len__(self) -> int:
        return len(self.distances)

    @property
    def doubt(self) -> np.ndarray:
        """(n,), total standard deviation of the steering."""
        return np.sqrt(self.aleatoric[:, 0] + self.epistemic[:, 0])

    @property
    def on_road(self) -> int:
        """Actions before the road was left for good; all of them if it was not."""
        off = self.distances > self.half_width
        if self.finished or not off.any() or not off[-1]:
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
        """Numbers of the lap; doubts are means up to where the road was left for good."""
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
            "doubt": float(self.doubt[:n].mean()),
            "aleatoric": float(np.sqrt(self.aleatoric[:n, 0]).mean()),
            "epistemic": float(np.sqrt(self.epistemic[:n, 0]).mean()),
            "contrast": self.colours.contrast,
        }


@dataclass(frozen=True)
class Start:
    """What a lap begins with."""

    seed: int
    """of the track"""
    colours: Colours = PLAIN
    """of the field"""
    supervisor: Supervisor | None = None
    """may change what the driver wants"""
    watch: Callable[[World, Decision, str], None] | None = None
    """called before each action"""


def drive_lap(
    world: World,
    driver: Driver | None,
    seed: int,
    colours: Colours = PLAIN,
    supervisor: Supervisor | None = None,
    watch: Callable[[World, Decision, str], None] | None = None,
    limit: int = LIMIT,
) -> Lap:
    """Drive until 95 % of the tiles are visited, the road is lost for two seconds, or the time is up.

    Args:
        world: the simulator.
        driver: sees frames only; None for the expert, who knows the track.
        seed: of the track.
        colours: of the field.
        supervisor: may change what the driver wants.
        watch: called before each action.
        limit: actions at most.
    """
    (lap,) = drive_laps([world], driver, [Start(seed, colours, supervisor, watch)], limit=limit)
    return lap


def drive_laps(
    worlds: Sequence[World],
    driver: Driver | None,
    starts: Sequence[Start],
    report: Callable[[Lap], None] | None = None,
    limit: int = LIMIT,
) -> list[Lap]:
    """Many laps, as many at a time as there are worlds: one decision for all of them costs little more than for one.

    Args:
        worlds: simulators; one whose lap has ended takes the next.
        driver: sees frames only; None for the expert, who knows the track.
        starts: one per lap.
        report: called with each lap when it ends.
        limit: actions of a lap at most.
    """
    waiting, laps = iter(enumerate(starts)), {}

    def seats(world: World) -> list[_Seat]:
        """The next lap, if there is one."""
        length = 1 if driver is None else driver.length
        return [_Seat(number, world, _drive(world, start, limit), length) for number, start in islice(waiting, 1)]

    running = [seat for world in worlds for seat in seats(world)]
    while running:
        seen = np.stack([seat.seen for seat in running])
        decisions = [None] * len(running) if driver is None else driver.decide(seen)
        going = []
        for seat, decision in zip(running, decisions, strict=True):
            lap = seat.go(decision)
            if lap is None:
                going.append(seat)
                continue
            laps[seat.number] = lap
            going += seats(seat.world)
            if report is not None:
                report(lap)
        running = going
    return [laps[number] for number in range(len(laps))]


class _Seat:
    """A lap while it is driven."""

    def __init__(self, number: int, world: World, drive: Generator[np.ndarray, Decision | None, Lap], length: int):
        self.number, self.world, self.drive, self.memory = number, world, drive, Memory(length)
        self.seen = self.memory.see(next(drive))

    def go(self, decision: Decision | None) -> Lap | None:
        """One action; the lap when it has ended."""
        try:
            self.seen = self.memory.see(self.drive.send(decision))
        except StopIteration as end:
            return end.value
        return None


def _drive(world: World, start: Start, limit: int) -> Generator[np.ndarray, Decision | None, Lap]:
    """Yields frames and is sent decisions, None for the expert's; returns the lap."""
    frame, rows, lost = world.start(start.seed, start.colours), [], 0
    expert = Expert(world)
    if start.supervisor is not None:
        start.supervisor.forget()
    while world.visited < DONE and not world.over and lost < LOST and len(rows) < limit:
        wanted = expert.act()
        decision = (yield frame) or Decision(wanted, np.zeros(3), np.zeros(3))
        done, mode = decision.action, "drive"
        if start.supervisor is not None:
            done, mode = start.supervisor.allow(decision, world.speed, wanted)
        if start.watch is not None:
            start.watch(world, decision, mode)
        _, distance = world.track.project(world.position)
        lost = lost + 1 if distance > world.track.half_width else 0
        state = world.position, distance, world.speed
        rows.append((*state, decision.action, wanted, decision.aleatoric, decision.epistemic, mode))
        frame = world.step(done)
    *columns, modes = zip(*rows, strict=True)
    names = ("positions", "distances", "speeds", "actions", "expert", "aleatoric", "epistemic")
    known: dict[str, Any] = {name: np.array(column) for name, column in zip(names, columns, strict=True)}
    return Lap(
        seed=start.seed,
        colours=start.colours,
        finished=world.visited >= DONE,
        visited=world.visited,
        track=world.track.points,
        half_width=world.track.half_width,
        seconds=world.seconds,
        modes=modes,
        **known,
    )
