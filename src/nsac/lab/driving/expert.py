"""An expert that drives CarRacing: pure pursuit of the centreline, with a target speed for every bend.

It is privileged: it uses the track and the position and speed of the car, and no frame.
"""

import numpy as np

from nsac.lab.driving.world import Track, World

LOOKAHEAD, LOOKAHEAD_PER_SPEED = 6.0, 0.15
"""Distance to the pursued point at rest, and what is added per unit of speed."""
STEERING_GAIN, WHEEL_BASE = 1.2, 3.24
MIN_SPEED, MAX_SPEED = 30.0, 85.0
GRIP, BRAKING = 170.0, 260.0
"""Largest speed squared times curvature without sliding; speed squared that braking removes per unit of length."""
THROTTLE_GAIN, BRAKE_GAIN, SPEED_TOLERANCE = 0.05, 0.05, 2.0
"""Throttle and brake per unit of speed too low or too high; within the tolerance there is no braking."""
MAX_BRAKE = 0.8
"""Upper limit of the brake: locked wheels do not steer."""
MIN_HEADING_COSINE, RECOVERY_SPEED = 0.5, 20.0
"""A car off the road, or whose heading is farther from the pursued point, returns at this speed, without spinning."""


def speed_profile(track: Track) -> np.ndarray:
    """Target speed at each point of the track, limited by the bends and by the distance to brake for them."""
    speed = np.sqrt(GRIP / np.abs(track.curvature()).clip(1e-9)).clip(MIN_SPEED, MAX_SPEED)
    for i in range(2 * len(speed) - 1, -1, -1):  # two rounds, since the centreline is closed
        here, ahead = i % len(speed), (i + 1) % len(speed)
        speed[here] = min(speed[here], np.sqrt(speed[ahead] ** 2 + BRAKING * track.lengths[here]))
    return speed


class Expert:
    """The expert for the current track of a world."""

    def __init__(self, world: World):
        self.world, self.track = world, world.track
        self.speeds = speed_profile(self.track)

    def act(self) -> np.ndarray:
        """Steering, throttle and brake, (3,), for the current state of the world."""
        world = self.world
        along, off_centre = self.track.project(world.position)
        speed, heading = world.speed, world.heading
        pursued = self.track.at(along + LOOKAHEAD + LOOKAHEAD_PER_SPEED * speed) - world.position
        distance = max(float(np.hypot(*pursued)), 1e-6)
        sine = float(heading[0] * pursued[1] - heading[1] * pursued[0]) / distance
        if heading @ pursued < 0:
            sine = np.sign(sine) or 1.0  # the point is behind the car: turn fully
        steering = float(np.clip(-STEERING_GAIN * np.arctan2(2 * WHEEL_BASE * sine, distance), -1, 1))
        piece = int(np.searchsorted(self.track.starts, along % self.track.length, "right")) - 1
        target = self.speeds[min(piece, len(self.speeds) - 1)]
        if off_centre > self.track.half_width or heading @ pursued < MIN_HEADING_COSINE * distance:
            target = min(target, RECOVERY_SPEED)
        missing = target - speed
        throttle = float(np.clip(THROTTLE_GAIN * missing, 0, 1)) * (1 - abs(steering))
        brake = float(np.clip(BRAKE_GAIN * -missing, 0, MAX_BRAKE)) if missing < -SPEED_TOLERANCE else 0.0
        return np.array([steering, throttle, brake])
