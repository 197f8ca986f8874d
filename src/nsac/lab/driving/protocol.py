"""The simulator's protocol: events of socket.io in messages of engine.io, version 3, over a websocket.

The simulator is the client. It asks for `EIO=4` and then speaks version 3: it pings the server (`2`) and waits to be
told that it is connected (`40`). Servers that know version 4 believe the number and wait for the client instead, so
python-socketio works with it only in releases that nobody has cared for in years. What the simulator needs of the
protocol is little enough to be written here; the websocket itself is that of the package `websockets`.
"""

import json
import uuid
from typing import Any, NamedTuple

PORT = 4567
"""Where the simulator looks for a driver."""
LARGEST = 1 << 20
"""Bytes of a message at most; a frame has about 15,000."""


class Event(NamedTuple):
    """Something the other side tells."""

    name: str
    data: Any


def greeting() -> list[str]:
    """What a server says first: a session is open, and connected."""
    session = {"sid": uuid.uuid4().hex, "upgrades": [], "pingInterval": 25_000, "pingTimeout": 60_000}
    return ["0" + json.dumps(session), "40"]


def event(name: str, data: Any) -> str:
    """An event as a message."""
    return "42" + json.dumps([name, data], separators=(",", ":"))


def reply(message: str | bytes) -> str | None:
    """What the protocol itself answers: a ping gets its pong, all else nothing."""
    return "3" + message[1:] if isinstance(message, str) and message.startswith("2") else None


def parse(message: str | bytes) -> Event | None:
    """The event in a message; None for what is none: pings, connections, other namespaces, and broken ones."""
    if not isinstance(message, str) or not message.startswith("42"):
        return None
    try:
        content = json.loads(message[2:].lstrip("0123456789"))  # a number asks for an acknowledgement
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, list) or not content or not isinstance(content[0], str):
        return None
    return Event(content[0], content[1] if len(content) > 1 else None)
