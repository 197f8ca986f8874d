"""CarRacing as we use it: grey frames, two steps of physics per action, the track's geometry, and other colours."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nsac.lab.driving.errors import SimulatorMissing
from nsac.lab.driving.track import Track

SIZE = 84
"""Pixels of a frame's side."""
FIELD = 73
"""Rows of a frame that show the field; below are the indicators: speed, wheels, steering, turn."""
SCORE = 10
"""Columns of the indicators that show the score, which is no business of a driver and is blanked."""
HOLD = 2
"""Steps of physics, of 20 ms each, per action and frame: neighbouring frames are almost equal."""
DONE = 0.95
"""Share of the tiles that must be visited."""
GREY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a shade of grey."""

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Colours:
    """Of the field, 0 to 255."""

    road: Colour = (102.0, 102.0, 102.0)
    background: Colour = (102.0, 204.0, 102.0)
    grass: Colour = (102.0, 230.0, 102.0)

    @property
    def contrast(self) -> float:
        """Between road and background, in shades of grey."""
        road, background = (np.dot(GREY, colour) for colour in (self.road, self.background))
        return float(abs(road - background))


PLAIN = Colours()


def random_colours(seed: int) -> Colours:
    """As the simulator's own randomisation draws them; now and then road and field are the same grey."""
    random = np.random.default_rng(seed)
    road, background = random.uniform(0, 210, 3), random.uniform(0, 210, 3)
    grass = background.copy()
    grass[random.integers(3)] += 20
    return Colours(*(tuple(colour.tolist()) for colour in (road, background, grass)))


class World:
    """One car on one track. Nobody but the expert may look at anything but `frame`."""

    def __init__(self):
        try:
            from nsac.lab.driving.racing import Racing, car_racing

            self._env: Any = Racing()
        except Exception as err:  # gymnasium raises its own where Box2D is missing
            raise SimulatorMissing(err) from None
        self._half_width = float(car_racing.TRACK_WIDTH)
        self._second = car_racing.FPS

    def start(self, seed: int, colours: Colours = PLAIN) -> np.ndarray:
        """A new track, the same for a seed whatever its colours; the first frame."""
        env = self._env
        env.road_color, env.bg_color, env.grass_color = (
            np.array(colour) for colour in (colours.road, colours.background, colours.grass)
        )
        env.reset(seed=seed)
        self.track = Track(np.array([point[2:4] for point in env.track]), self._half_width)
        self.over = False
        return self.frame

    def step(self, action: np.ndarray) -> np.ndarray:
        """Steer (-1 left, 1 right), gas and brake (0 to 1) for `HOLD` steps; the frame after them."""
        action = np.clip(np.asarray(action, np.float64), (-1, 0, 0), (1, 1, 1))
        for left in range(HOLD, 0, -1):
            self._env.blind = left > 1
            *_, ended, _, _ = self._env.step(action)
            self.over = self.over or bool(ended)
        return self.frame

    @property
    def seconds(self) -> float:
        """That one action lasts."""
        return HOLD / self._second

    @property
    def colour(self) -> np.ndarray:
        """(96, 96, 3), what the simulator shows."""
        return self._env.state

    @property
    def frame(self) -> np.ndarray:
        """(84, 84), uint8, what a driver sees."""
        return grey_frame(self._env.state)

    @property
    def position(self) -> np.ndarray:
        """Of the car, (2,)."""
        return np.array(self._env.car.hull.position)

    @property
    def heading(self) -> np.ndarray:
        """Direction of the car, (2,), of length 1."""
        angle = self._env.car.hull.angle
        return np.array([-np.sin(angle), np.cos(angle)])

    @property
    def speed(self) -> float:
        """Units of length per second."""
        return float(np.hypot(*self._env.car.hull.linearVelocity))

    @property
    def visited(self) -> float:
        """Share of the track's tiles that a wheel has touched."""
        return self._env.tile_visited_count / len(self._env.track)

    def close(self) -> None:
        """Free what the simulator holds."""
        self._env.close()


def grey_frame(picture: np.ndarray) -> np.ndarray:
    """A colour picture as a grey frame of 84 x 84, all of it, the indicators too; the score is blanked."""
    grey = _SHRINK @ (picture @ np.array(GREY)) @ _SHRINK.T
    grey[FIELD:, :SCORE] = 0
    return np.rint(grey).clip(0, 255).astype(np.uint8)


def _shrink(small: int, large: int) -> np.ndarray:
    """(small, large), each row the share of every old pixel in a new one."""
    edges, cells = np.linspace(0, large, small + 1), np.arange(large)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    return overlap.clip(0) * small / large


_SHRINK = _shrink(SIZE, 96)
