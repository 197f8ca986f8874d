"""CarRacing with the same physics and the same pixels, drawn only where the camera looks and when somebody looks."""

import math

import numpy as np
from gymnasium.envs.box2d import car_racing

SIDE = 20
"""Grass: patches lie on every other cell of a grid from -20 to 20."""


class Racing(car_racing.CarRacing):
    """The environment `CarRacing-v3`, several times as fast.

    Its own renderer transforms some 700 polygons one by one, nearly all of which lie outside of the picture, after
    every step of the physics. Here they are transformed at once, and not at all while `blind`.
    """

    blind = False

    def reset(self, **arguments):
        """A new track, seen."""
        self.blind = False
        return super().reset(**arguments)

    def _render(self, mode: str):
        return self.state if self.blind else super()._render(mode)

    def _render_road(self, zoom, translation, angle):
        field, patches = car_racing.PLAYFIELD, _patches()
        corners = [(field, field), (field, -field), (-field, -field), (-field, field)]
        self._draw_colored_polygon(self.surf, corners, self.bg_color, zoom, translation, angle, clip=False)
        view = zoom, translation, angle
        for i in _seen(patches, *view):
            self._draw_colored_polygon(self.surf, patches[i].tolist(), self.grass_color, *view)
        if getattr(self, "_drawn", None) is not self.road_poly:  # a new track
            self._drawn, self._corners = self.road_poly, np.array([poly for poly, _ in self.road_poly])
        for i in _seen(self._corners, *view):
            poly, colour = self.road_poly[i]
            self._draw_colored_polygon(self.surf, poly, [int(c) for c in colour], *view)


def _patches() -> np.ndarray:
    at = car_racing.GRASS_DIM * np.arange(-SIDE, SIDE, 2)
    x, y = (axis.reshape(-1, 1) for axis in np.meshgrid(at, at, indexing="ij"))
    d = car_racing.GRASS_DIM
    return np.stack([np.hstack([x + d, x, x, x + d]), np.hstack([y, y, y + d, y + d])], -1)


def _seen(polygons: np.ndarray, zoom: float, translation, angle: float) -> np.ndarray:
    """Numbers of the polygons that the environment draws and that are in the window.

    It draws those with a corner in or near it, most of which leave no pixel.
    """
    c, s = math.cos(angle), math.sin(angle)
    x = (polygons[..., 0] * c - polygons[..., 1] * s) * zoom + translation[0]
    y = (polygons[..., 0] * s + polygons[..., 1] * c) * zoom + translation[1]
    far, drawn, inside = car_racing.MAX_SHAPE_DIM, True, True
    for at, side in ((x, car_racing.WINDOW_W), (y, car_racing.WINDOW_H)):
        drawn = drawn & (at >= -far) & (at <= side + far)
        inside = inside & (at.max(-1) >= -1) & (at.min(-1) <= side + 1)
    return np.flatnonzero(drawn.any(-1) & inside)
