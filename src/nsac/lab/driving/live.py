"""A pilot drives the Udacity simulator while it runs."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import asdict, dataclass
from threading import Thread
from typing import Any

from nsac.lab.driving import protocol
from nsac.lab.driving.errors import DrivingError
from nsac.lab.driving.pilot import Memory, Pilot
from nsac.lab.driving.road import FrameError, decode, prepare

GAIN = 0.15
"""Throttle per mile per hour too slow."""
BLIND = 10
"""Frames in a row that cannot be read, after which a drive ends."""


@dataclass(frozen=True)
class Told:
    """What was seen and done at one moment of a drive."""

    steering: float
    throttle: float
    speed: float
    """miles per hour"""
    aleatoric: float
    epistemic: float
    """variances of the steering"""
    sure: bool
    """whether doubt was below the threshold"""
    error: str = ""
    """why the frame could not be used; then the wheel stays where it was, without throttle"""


class RoadDriver:
    """Answers what the simulator tells.

    Args:
        pilot: that learnt the task `"udacity"`.
        speed: miles per hour on a road it knows.
        threshold: standard deviation of the steering above which it goes at half that speed; None for never.
        report: called with every answer.
    """

    def __init__(
        self,
        pilot: Pilot,
        speed: float = 15.0,
        threshold: float | None = None,
        report: Callable[[Told], None] | None = None,
    ):
        self.pilot, self.speed, self.threshold, self.report = pilot, speed, threshold, report
        self._memory = Memory(pilot.length)
        self._steering, self._unread = 0.0, 0

    def answer(self, event: protocol.Event) -> str | None:
        """The message to send back, if any; nothing to go by means that a person drives."""
        if event.name != "telemetry":
            return None
        if not isinstance(event.data, dict) or "image" not in event.data:
            return protocol.event("manual", {})
        told = self.decide(event.data)
        if self.report is not None:
            self.report(told)
        return steer(told.steering, told.throttle)

    def decide(self, data: dict[str, Any]) -> Told:
        """What to do about one telemetry message."""
        speed = _number(data.get("speed", 0))
        try:
            jpeg = base64.b64decode(data["image"], validate=True)
            frame = prepare(decode(jpeg, "The frame of the simulator"))
        except (FrameError, binascii.Error, ValueError, TypeError) as err:
            self._unread += 1
            if self._unread >= BLIND:
                raise DrivingError(f"{BLIND} frames in a row could not be read. The last: {err}") from None
            return Told(self._steering, 0.0, speed, 0.0, 0.0, False, str(err))
        self._unread = 0
        (decision,) = self.pilot.decide(self._memory.see(frame)[None])
        sure = self.threshold is None or decision.doubt <= self.threshold
        self._steering = max(-1.0, min(1.0, float(decision.action[0])))
        throttle = max(-1.0, min(1.0, GAIN * (self.speed * (1.0 if sure else 0.5) - speed)))
        return Told(self._steering, throttle, speed, float(decision.aleatoric[0]), float(decision.epistemic[0]), sure)


def steer(angle: float, throttle: float) -> str:
    """The message that moves the car."""
    return protocol.event("steer", {"steering_angle": f"{angle:.6f}", "throttle": f"{throttle:.6f}"})


def serve(
    driver: RoadDriver, host: str = "127.0.0.1", port: int = protocol.PORT, ready: Callable[[int], None] | None = None
):
    """Wait for the simulator and drive until its connection is closed.

    Args:
        driver: who answers.
        host, port: where to listen; port 0 takes a free one.
        ready: called with the port when the simulator can be started.
    """
    try:
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.server import serve as listen
    except ImportError as err:
        raise DrivingError(
            f"The simulator needs websockets ({err}). Install it: `pip install 'nsac[drive]'`."
        ) from None
    failed: list[DrivingError] = []

    def handle(connection) -> None:
        try:
            for message in protocol.greeting():
                connection.send(message)
            connection.send(steer(0.0, 0.0))  # the simulator tells nothing before it is told something
            for message in connection:
                event = protocol.parse(message)
                answer = protocol.reply(message) if event is None else driver.answer(event)
                if answer is not None:
                    connection.send(answer)
        except ConnectionClosed:
            pass
        except DrivingError as err:
            failed.append(err)
        finally:
            Thread(target=server.shutdown).start()  # it waits for this very handler to end

    try:
        server = listen(handle, host, port, max_size=protocol.LARGEST, compression=None)
    except OSError as err:
        raise DrivingError(
            f"Port {port} of {host} cannot be used ({err}). Stop what uses it, or name another."
        ) from None
    with server:
        if ready is not None:
            ready(server.socket.getsockname()[1])
        server.serve_forever()
    if failed:
        raise failed[0]


def log_line(told: Told) -> dict[str, Any]:
    """One moment of a drive for a program."""
    return asdict(told)


def _number(value: Any) -> float:
    """The simulator writes numbers as text, in some countries with a comma."""
    try:
        return float(str(value).replace(",", "."))
    except ValueError:
        return 0.0
