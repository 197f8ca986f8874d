"""Geometry of a race track: projection on its centreline, points ahead, and curvature."""

import numpy as np


class Track:
    """A closed centreline of straight pieces.

    Args:
        points: (n, 2), in order; the last is joined to the first.
        half_width: half the width of the road.
    """

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
