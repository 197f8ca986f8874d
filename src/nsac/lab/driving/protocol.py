"""Messages of the Udacity simulator: socket.io events in engine.io messages, version 3, over a websocket.

The simulator is the client. It requests `EIO=4` but uses version 3: it pings the server (`2`) and waits for the
message that it is connected (`40`). Servers of version 4 wait for the client's own `40` instead, so python-socketio
works only in old releases that are no longer maintained. The few messages that the simulator needs are written here;
the websocket itself is that of the package `websockets`.
"""

import json
import uuid
from typing import Any, NamedTuple

PORT = 4567
"""Port that the simulator connects to."""
MAX_MESSAGE_BYTES = 1 << 20
"""Bytes of a message at most; a frame has about 15,000."""


class Event(NamedTuple):
    """An event from the other side."""

    name: str
    data: Any


def greeting() -> list[str]:
    """The first messages of a server: the session is open, and connected."""
    session = {"sid": uuid.uuid4().hex, "upgrades": [], "pingInterval": 25_000, "pingTimeout": 60_000}
    return ["0" + json.dumps(session), "40"]


def event(name: str, data: Any) -> str:
    """An event as a message."""
    return "42" + json.dumps([name, data], separators=(",", ":"))


def reply(message: str | bytes) -> str | None:
    """The reply of the protocol itself: a pong for a ping, and None for any other message."""
    return "3" + message[1:] if isinstance(message, str) and message.startswith("2") else None


def parse(message: str | bytes) -> Event | None:
    """The event in a message; None for other messages: pings, connections, other namespaces, and malformed ones."""
    if not isinstance(message, str) or not message.startswith("42"):
        return None
    try:
        content = json.loads(message[2:].lstrip("0123456789"))  # a number requests an acknowledgement
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, list) or not content or not isinstance(content[0], str):
        return None
    return Event(content[0], content[1] if len(content) > 1 else None)
