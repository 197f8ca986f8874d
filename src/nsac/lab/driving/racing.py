"""CarRacing with the same physics and the same pixels, rendered only inside the window and only when needed."""

import math
from typing import Any

import numpy as np
from gymnasium.envs.box2d import car_racing

# pygame is imported through the environment, since it prints a greeting when it is imported directly
from gymnasium.envs.box2d.car_racing import gfxdraw, pygame  # pyright: ignore[reportPrivateImportUsage]

GRASS_CELLS = 20
"""Patches of grass are on every other cell of a grid from -20 to 20."""
WINDOW = car_racing.WINDOW_W, car_racing.WINDOW_H
SMALL = car_racing.STATE_W, car_racing.STATE_H
_CELLS = car_racing.GRASS_DIM * np.arange(-GRASS_CELLS, GRASS_CELLS, 2)
_CORNERS = np.array([(1, 0), (0, 0), (0, 1), (1, 1)])
_PATCHES = np.stack(np.meshgrid(_CELLS, _CELLS, indexing="ij"), -1).reshape(-1, 1, 2) + car_racing.GRASS_DIM * _CORNERS
View = tuple[float, tuple[float, float], float]
"""Pixels per unit of length, position of the origin in pixels, and rotation of the world."""


class Racing(car_racing.CarRacing):
    """The environment `CarRacing-v3`, several times as fast.

    The original renderer transforms about 700 polygons one by one after every step of the physics, nearly all of which
    are outside the picture, and rasterises a font each time. Here they are transformed at once, and not at all while
    `skip_rendering` is set; the score is omitted.
    """

    skip_rendering = False
    car: Any

    def reset(self, **arguments):
        """Start on a new track, with a rendered picture."""
        self.skip_rendering = False
        return super().reset(**arguments)

    def _render(self, mode: str):
        if self.skip_rendering:
            return self.state
        if getattr(self, "_canvas", None) is None:
            self._canvas = pygame.Surface(WINDOW)
        view, self.surf = self._view(), self._canvas
        self._render_road(*view)
        self.car.draw(self.surf, *view, False)
        self.surf = pygame.transform.flip(self.surf, False, True)
        self._render_indicators(*WINDOW)
        return self._create_image_array(self.surf, SMALL)

    def _view(self) -> View:
        """The car points up, below the middle of the picture; the camera zooms in during the first second."""
        share, angle = min(self.t, 1.0), -self.car.hull.angle
        zoom = 0.1 * car_racing.SCALE * (1 - share) + car_racing.ZOOM * car_racing.SCALE * share
        x, y = pygame.math.Vector2(*(-at * zoom for at in self.car.hull.position)).rotate_rad(angle)
        return zoom, (WINDOW[0] / 2 + x, WINDOW[1] / 4 + y), angle

    def _render_road(self, zoom, translation, angle):
        field, view = car_racing.PLAYFIELD, (zoom, translation, angle)
        farthest = max(abs(at) for at in self.car.hull.position) + math.hypot(*WINDOW) / zoom
        self.surf.fill([int(c) for c in self.bg_color] if farthest < field else 0)
        if farthest >= field:  # the edge of the field is in the picture
            corners = [(field, field), (field, -field), (-field, -field), (-field, field)]
            self._draw_colored_polygon(self.surf, corners, self.bg_color, *view, clip=False)
        if getattr(self, "_drawn", None) is not self.road_poly:  # a new track
            self._drawn, self._corners = self.road_poly, np.array([poly for poly, _ in self.road_poly])
        for _, corners in _visible(_PATCHES, view):
            _draw(self.surf, corners, self.grass_color)
        for i, corners in _visible(self._corners, view):
            _draw(self.surf, corners, [int(c) for c in self.road_poly[i][1]])  # it changes when a tile is visited


def _draw(surface: pygame.Surface, corners: list, colour) -> None:
    gfxdraw.aapolygon(surface, corners, colour)
    gfxdraw.filled_polygon(surface, corners, colour)


def _visible(polygons: np.ndarray, view: View) -> list[tuple[int, list]]:
    # Numbers and corners in pixels of the polygons that the environment draws and that are in the window. The
    # environment draws all polygons with a corner in or near the window, most of which change no pixel.
    zoom, translation, angle = view
    c, s = math.cos(angle), math.sin(angle)
    x = (polygons[..., 0] * c - polygons[..., 1] * s) * zoom + translation[0]
    y = (polygons[..., 0] * s + polygons[..., 1] * c) * zoom + translation[1]
    far, (width, height) = car_racing.MAX_SHAPE_DIM, WINDOW
    drawn = (x >= -far) & (x <= width + far) & (y >= -far) & (y <= height + far)
    inside = (x.max(-1) >= -1) & (x.min(-1) <= width + 1) & (y.max(-1) >= -1) & (y.min(-1) <= height + 1)
    chosen = np.flatnonzero(drawn.any(-1) & inside)
    return list(zip(chosen.tolist(), np.stack([x[chosen], y[chosen]], -1).tolist(), strict=True))
