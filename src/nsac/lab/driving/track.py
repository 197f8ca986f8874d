"""A closed centreline: where a point lies along it, how far off, and what comes ahead."""

import numpy as np


class Track:
    """A closed line of straight pieces.

    Args:
        points: (n, 2), in order; the last is joined to the first.
        half_width: of the road about it.
    """

    def __init__(self, points: np.ndarray, half_width: float):
        self.points, self.half_width = np.asarray(points, float), half_width
        self.steps = np.roll(self.points, -1, 0) - self.points
        self.lengths = np.hypot(*self.steps.T)
        self.starts = np.concatenate([[0.0], np.cumsum(self.lengths)])
        self.length = float(self.starts[-1])

    def project(self, position: np.ndarray) -> tuple[float, float]:
        """How far along the line the nearest point is, and how far away."""
        apart = position - self.points
        share = (apart * self.steps).sum(1) / np.maximum(self.lengths, 1e-9) ** 2
        share = share.clip(0, 1)
        distance = np.hypot(*(apart - share[:, None] * self.steps).T)
        i = int(distance.argmin())
        return float(self.starts[i] + share[i] * self.lengths[i]), float(distance[i])

    def at(self, along: float) -> np.ndarray:
        """The point so far along."""
        along %= self.length
        i = min(int(np.searchsorted(self.starts, along, "right")) - 1, len(self.lengths) - 1)
        return self.points[i] + (along - self.starts[i]) / self.lengths[i] * self.steps[i]

    def curvature(self) -> np.ndarray:
        """(n,), turn per length about each point, over three pieces: less would be the noise of the line."""
        heading = np.arctan2(self.steps[:, 1], self.steps[:, 0])
        turn = np.roll(heading, -1) - np.roll(heading, 2)
        turn = (turn + np.pi) % (2 * np.pi) - np.pi
        return turn / sum(np.roll(self.lengths, k) for k in (-1, 0, 1))
