"""An expert that drives CarRacing: pure pursuit of the centreline, with a speed for every bend.

It is privileged: it knows the track, its own position and its speed, and never looks at a frame.
"""

import numpy as np

from nsac.lab.driving.track import Track
from nsac.lab.driving.world import World

NEAREST, PER_SPEED = 6.0, 0.15
"""Look this far ahead, and so much farther per unit of speed."""
STEER, WHEEL_BASE = 1.2, 3.24
SLOWEST, FASTEST = 30.0, 85.0
GRIP, BRAKING = 170.0, 260.0
"""Speed squared times curvature that the tyres hold; speed squared that braking takes off per length."""
GAS, BRAKE, TOLERANCE = 0.05, 0.05, 2.0
"""Pedals per unit of speed too low or too high; too high by less than the tolerance is not braked."""
HARDEST = 0.8
"""Brake at most: wheels that lock do not steer."""
ASTRAY, CREEP = 0.5, 20.0
"""A car that left the road, or points so much elsewhere (cosine), goes back at this speed; faster it would spin."""


def speed_profile(track: Track) -> np.ndarray:
    """Target speed at each point of the track: what bends allow, and what braking can still reach."""
    speed = np.sqrt(GRIP / np.abs(track.curvature()).clip(1e-9)).clip(SLOWEST, FASTEST)
    for i in range(2 * len(speed) - 1, -1, -1):  # twice round, since the line is closed
        here, ahead = i % len(speed), (i + 1) % len(speed)
        speed[here] = min(speed[here], np.sqrt(speed[ahead] ** 2 + BRAKING * track.lengths[here]))
    return speed


class Expert:
    """The expert for a world's present track."""

    def __init__(self, world: World):
        self.world, self.track = world, world.track
        self.speeds = speed_profile(self.track)

    def act(self) -> np.ndarray:
        """Steering, gas and brake, (3,), for the state the world is in."""
        world = self.world
        along, off = self.track.project(world.position)
        speed, heading = world.speed, world.heading
        apart = self.track.at(along + NEAREST + PER_SPEED * speed) - world.position
        distance = max(float(np.hypot(*apart)), 1e-6)
        sine = float(heading[0] * apart[1] - heading[1] * apart[0]) / distance
        if heading @ apart < 0:
            sine = np.sign(sine) or 1.0  # it is behind: turn as hard as one can
        steer = float(np.clip(-STEER * np.arctan2(2 * WHEEL_BASE * sine, distance), -1, 1))
        place = int(np.searchsorted(self.track.starts, along % self.track.length, "right")) - 1
        target = self.speeds[min(place, len(self.speeds) - 1)]
        if off > self.track.half_width or heading @ apart < ASTRAY * distance:
            target = min(target, CREEP)
        lack = target - speed
        gas = float(np.clip(GAS * lack, 0, 1)) * (1 - abs(steer))
        brake = float(np.clip(BRAKE * -lack, 0, HARDEST)) if lack < -TOLERANCE else 0.0
        return np.array([steer, gas, brake])
