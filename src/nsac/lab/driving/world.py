"""The CarRacing simulator with grey frames, two steps of physics per action, the track's geometry and colours."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsac.lab.datasets.carracing import FIELD, GREY, SIZE

SCORE_COLUMNS = 10
"""Columns of the indicators that show the score; they are blanked, since the score is not an input of a policy."""
HOLD = 2
"""Steps of physics, of 20 ms each, per action and frame: consecutive frames are almost equal."""
DONE = 0.95
"""Share of the tiles that must be visited to finish a lap."""
INSTALL = "Install it: `pip install 'nsac[drive]'`."

Colour = tuple[float, float, float]


class DrivingError(RuntimeError):
    """A drive that cannot be made, read or shown. The message names the reason and how to fix it."""


class SimulatorMissing(DrivingError):
    """The simulator is not installed, or does not run here."""


@dataclass(frozen=True)
class Colours:
    """Colours of the field, 0 to 255."""

    road: Colour = (102.0, 102.0, 102.0)
    background: Colour = (102.0, 204.0, 102.0)
    grass: Colour = (102.0, 230.0, 102.0)

    @property
    def contrast(self) -> float:
        """Absolute difference of road and background, in shades of grey."""
        return float(abs(np.dot(GREY, self.road) - np.dot(GREY, self.background)))


PLAIN = Colours()
_EDGES, _PIXELS = np.linspace(0, 96, SIZE + 1), np.arange(96)
_OVERLAP = np.minimum(_EDGES[1:, None], _PIXELS + 1) - np.maximum(_EDGES[:-1, None], _PIXELS)
_SHRINK = _OVERLAP.clip(0) * SIZE / 96
"""(84, 96): each row has the weights of the old pixels in a new one."""


def random_colours(seed: int) -> Colours:
    """Colours drawn as the simulator's own randomisation does; sometimes road and field are the same grey."""
    generator = np.random.default_rng(seed)
    road, background = generator.uniform(0, 210, 3), generator.uniform(0, 210, 3)
    grass = background.copy()
    grass[generator.integers(3)] += 20
    return Colours(tuple(road.tolist()), tuple(background.tolist()), tuple(grass.tolist()))


class Track:
    """A closed centreline of straight pieces between points, (n, 2), in order; the last is joined to the first."""

    def __init__(self, points: np.ndarray, half_width: float):
        self.points, self.half_width = np.asarray(points, float), half_width
        self.steps = np.roll(self.points, -1, 0) - self.points
        self.lengths = np.hypot(*self.steps.T)
        self.starts = np.concatenate([[0.0], np.cumsum(self.lengths)])
        self.length = float(self.starts[-1])

    def project(self, position: np.ndarray) -> tuple[float, float]:
        """Position along the centreline of the nearest point on it, and the distance to that point."""
        offset = position - self.points
        share = (offset * self.steps).sum(1) / np.maximum(self.lengths, 1e-9) ** 2
        share = share.clip(0, 1)
        distance = np.hypot(*(offset - share[:, None] * self.steps).T)
        i = int(distance.argmin())
        return float(self.starts[i] + share[i] * self.lengths[i]), float(distance[i])

    def at(self, along: float) -> np.ndarray:
        """The point at a position along the centreline."""
        along %= self.length
        i = min(int(np.searchsorted(self.starts, along, "right")) - 1, len(self.lengths) - 1)
        return self.points[i] + (along - self.starts[i]) / self.lengths[i] * self.steps[i]

    def curvature(self) -> np.ndarray:
        """(n,), change of direction per length at each point, over three pieces: over one piece it would be noisy."""
        heading = np.arctan2(self.steps[:, 1], self.steps[:, 0])
        turn = np.roll(heading, -1) - np.roll(heading, 2)
        turn = (turn + np.pi) % (2 * np.pi) - np.pi
        return turn / sum(np.roll(self.lengths, k) for k in (-1, 0, 1))


class World:
    """One car on one track. A policy sees `frame` only; the expert also uses the geometry and the state of the car."""

    def __init__(self):
        try:
            from nsac.lab.driving.racing import Racing, car_racing

            self._env: Any = Racing()
        except Exception as err:  # gymnasium raises its own error where Box2D is missing
            raise SimulatorMissing(f"CarRacing needs gymnasium and Box2D ({err}). {INSTALL}") from None
        self._half_width = float(car_racing.TRACK_WIDTH)
        self.seconds = HOLD / car_racing.FPS  # duration of one action

    def start(self, seed: int, colours: Colours = PLAIN) -> np.ndarray:
        """Start on a new track, which depends on the seed and not on the colours; the first frame."""
        env = self._env
        env.road_color = np.array(colours.road)
        env.bg_color = np.array(colours.background)
        env.grass_color = np.array(colours.grass)
        env.reset(seed=seed)
        self.track = Track(np.array([point[2:4] for point in env.track]), self._half_width)
        self.over = False
        return self.frame

    def step(self, action: np.ndarray) -> np.ndarray:
        """Apply steering (-1 left, 1 right), throttle and brake (0 to 1) for `HOLD` steps; the frame after them."""
        action = np.asarray(action, np.float64)
        if not np.isfinite(action).all():
            problem = "`action` must be finite: steering, throttle and brake."
            raise DrivingError(f"{problem} Got {action.tolist()} instead. Train the policy again.")
        action = np.clip(action, (-1, 0, 0), (1, 1, 1))
        for left in range(HOLD, 0, -1):
            self._env.skip_rendering = left > 1
            *_, ended, _, _ = self._env.step(action)
            self.over = self.over or bool(ended)
        return self.frame

    @property
    def colour(self) -> np.ndarray:
        """The simulator's colour picture, (96, 96, 3)."""
        return self._env.state

    @property
    def frame(self) -> np.ndarray:
        """The grey frame that a policy sees, (84, 84), uint8."""
        return grey_frame(self._env.state)

    @property
    def position(self) -> np.ndarray:
        """Position of the car, (2,)."""
        return np.array(self._env.car.hull.position)

    @property
    def heading(self) -> np.ndarray:
        """Direction of the car, (2,), a unit vector."""
        angle = self._env.car.hull.angle
        return np.array([-np.sin(angle), np.cos(angle)])

    @property
    def speed(self) -> float:
        """Speed of the car, in units of length per second."""
        return float(np.hypot(*self._env.car.hull.linearVelocity))

    @property
    def visited(self) -> float:
        """Share of the track's tiles that a wheel has touched."""
        return self._env.tile_visited_count / len(self._env.track)

    def close(self) -> None:
        """Release the resources of the simulator."""
        self._env.close()


def grey_frame(picture: np.ndarray) -> np.ndarray:
    """A colour picture as a grey frame of 84 x 84, with the indicators; the score is blanked."""
    grey = _SHRINK @ (picture @ np.array(GREY)) @ _SHRINK.T
    grey[FIELD:, :SCORE_COLUMNS] = 0
    return np.rint(grey).clip(0, 255).astype(np.uint8)
