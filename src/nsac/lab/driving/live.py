"""A driving policy in the running Udacity simulator: socket.io events in engine.io messages over a websocket.

The simulator is the client. It requests `EIO=4` but uses version 3: it pings the server (`2`) and waits for the
message that it is connected (`40`). `docs/decisions/0008-simulator-protocol.md` has the reasons for our own messages.
"""

import base64
import json
import math
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from threading import Lock, Thread
from typing import Any

from nsac.lab.driving.policy import DrivingPolicy, FrameHistory
from nsac.lab.driving.world import INSTALL, DrivingError
from nsac.lab.tasks.udacity import FrameError, decode, prepare

PORT = 4567
MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of a message at most; a frame has about 15,000."""
THROTTLE_GAIN = 0.15
"""Throttle per mile per hour too slow."""
UNCERTAIN_SPEED_FACTOR = 0.5
"""Factor on the speed while the uncertainty is above the threshold."""
MAX_UNREADABLE_FRAMES = 10
"""Consecutive frames that cannot be read, after which a drive ends."""


@dataclass(frozen=True)
class Control:
    """Answer to one telemetry message."""

    steering: float
    throttle: float
    speed: float | None  # miles per hour; None if it could not be read
    aleatoric: float
    epistemic: float  # variances of the steering
    sure: bool  # whether the uncertainty was below the threshold
    error: str = ""  # why frame, speed or steering could not be used; without a frame, the steering is kept

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class TelemetryDriver:
    """Answers the telemetry messages of the simulator.

    Args:
        policy: trained on the task `"udacity"`.
        speed: miles per hour.
        threshold: total standard deviation of the steering above which it drives at half that speed; None for never.
        report: called with every answer.
    """

    def __init__(
        self,
        policy: DrivingPolicy,
        speed: float = 15.0,
        threshold: float | None = None,
        report: Callable[[Control], None] = lambda control: None,
    ):
        self.policy, self.speed, self.threshold, self.report = policy, speed, threshold, report
        self._history = FrameHistory(policy.lookback)
        self._steering, self._unreadable = 0.0, 0

    def answer(self, message: str | bytes) -> str | None:
        """The message to send back, if any; telemetry without a frame means that a person drives."""
        if isinstance(message, str) and message.startswith("2"):
            return "3" + message[1:]  # a ping gets its pong
        name, data = parse_event(message) or (None, None)
        if name != "telemetry":
            return None
        if not isinstance(data, dict) or "image" not in data:
            return write_event("manual", {})
        control = self.decide(data)
        self.report(control)
        return steer(control.steering, control.throttle)

    def decide(self, data: dict[str, Any]) -> Control:
        """Steering and throttle for one telemetry message."""
        speed = _read_speed(data.get("speed"))
        try:
            jpeg = base64.b64decode(data["image"], validate=True)
            frame = prepare(decode(jpeg, "The frame of the simulator"))
        except (FrameError, ValueError, TypeError) as err:  # base64 has its own kind of ValueError
            self._unreadable += 1
            if self._unreadable >= MAX_UNREADABLE_FRAMES:
                raise DrivingError(f"{self._unreadable} frames in a row could not be read. The last: {err}") from None
            return Control(self._steering, 0.0, speed, 0.0, 0.0, False, str(err))
        self._unreadable = 0
        (decision,) = self.policy.decide(self._history.add(frame)[None])
        steering = float(decision.action[0])
        if not math.isfinite(steering):
            self._steering = 0.0
            error = f"The steering of the policy must be finite. Got {steering} instead, so there is no throttle."
            return Control(0.0, 0.0, speed, 0.0, 0.0, False, error)
        sure = self.threshold is None or decision.steering_std <= self.threshold
        target = self.speed * (1.0 if sure else UNCERTAIN_SPEED_FACTOR)
        self._steering = max(-1.0, min(1.0, steering))
        aleatoric, epistemic = float(decision.aleatoric[0]), float(decision.epistemic[0])
        if speed is None:
            got = str(data.get("speed"))[:50]
            error = f"`speed` must be a finite number of at least 0. Got {got!r} instead, so there is no throttle."
            return Control(self._steering, 0.0, None, aleatoric, epistemic, sure, error)
        throttle = max(-1.0, min(1.0, THROTTLE_GAIN * (target - speed)))
        return Control(self._steering, throttle, speed, aleatoric, epistemic, sure)


def write_event(name: str, data: Any) -> str:
    """An event as a message."""
    return "42" + json.dumps([name, data], separators=(",", ":"))


def parse_event(message: str | bytes) -> tuple[str, Any] | None:
    """Name and data of the event in a message; None for connections, other namespaces and malformed messages."""
    if not isinstance(message, str) or not message.startswith("42"):
        return None
    try:
        content = json.loads(message[2:].lstrip("0123456789"))  # a number requests an acknowledgement
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, list) or not content or not isinstance(content[0], str):
        return None
    return content[0], content[1] if len(content) > 1 else None


def steer(angle: float, throttle: float) -> str:
    """The message that moves the car."""
    return write_event("steer", {"steering_angle": f"{angle:.6f}", "throttle": f"{throttle:.6f}"})


def serve(
    driver: TelemetryDriver, host: str = "127.0.0.1", port: int = PORT, ready: Callable[[int], None] = lambda port: None
) -> None:
    """Wait for the simulator and drive until its connection is closed.

    Port 0 takes a free one; `ready` is called with the port when the simulator can be started. While a simulator is
    connected, others are refused; so is every web page: browsers send the header `Origin`, and the simulator does not.
    """
    try:
        from websockets.exceptions import ConnectionClosed
        from websockets.frames import CloseCode
        from websockets.sync.server import ServerConnection
        from websockets.sync.server import serve as listen
    except ImportError as err:
        raise DrivingError(f"The simulator needs websockets ({err}). {INSTALL}") from None
    failed: list[DrivingError] = []
    connected = Lock()

    def handle(connection: ServerConnection) -> None:
        if not connected.acquire(blocking=False):  # never released: the server ends with its first client
            connection.close(CloseCode.TRY_AGAIN_LATER, "another simulator is connected")
            return
        try:
            session = {"sid": uuid.uuid4().hex, "upgrades": [], "pingInterval": 25_000, "pingTimeout": 60_000}
            connection.send("0" + json.dumps(session))  # the session is open
            connection.send("40")  # and connected
            connection.send(steer(0.0, 0.0))  # the simulator sends no telemetry before it receives a command
            for message in connection:
                answer = driver.answer(message)
                if answer is not None:
                    connection.send(answer)
        except ConnectionClosed as err:
            if err.sent is not None and err.sent.code == CloseCode.MESSAGE_TOO_BIG:
                failed.append(DrivingError(f"A message must have at most {MAX_MESSAGE_BYTES} bytes. Got a larger one."))
        except DrivingError as err:
            failed.append(err)
        finally:
            Thread(target=server.shutdown).start()  # it waits until this handler has returned

    try:
        server = listen(handle, host, port, origins=[None], max_size=MAX_MESSAGE_BYTES, compression=None)
    except OSError as err:
        raise DrivingError(
            f"Port {port} of {host} cannot be used ({err}). Stop the program that uses it, or name another port."
        ) from None
    with server:
        ready(server.socket.getsockname()[1])
        server.serve_forever()
    if failed:
        raise failed[0]


def _read_speed(value: Any) -> float | None:
    """Miles per hour; None if the value is not a finite number of at least 0."""
    try:  # the simulator writes numbers as text, in some countries with a comma
        speed = float(str(value).replace(",", "."))
    except ValueError:
        return None
    return speed if math.isfinite(speed) and speed >= 0 else None
