"""Chromium without a window, driven over a pipe by its DevTools protocol."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "--hide-scrollbars",
]  # fmt: skip


def installed() -> bool:
    return shutil.which("chromium") is not None


class Browser:
    """One page; console messages and exceptions are collected in `errors`."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900):
        to_read, to_write = os.pipe(), os.pipe()

        def pipes() -> None:  # the protocol is spoken on descriptors 3 and 4
            read, write = os.dup(to_read[0]), os.dup(to_write[1])
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read[0])
        os.close(to_write[1])
        self._out, self._in, self._rest, self._number = to_read[1], to_write[0], b"", 0
        self.errors: list[str] = []
        self.session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resize(self, width: int, height: int) -> None:
        mobile = width < 800
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._note(answer)

    def open(self, path: Path) -> None:
        self.send("Page.navigate", url=f"file://{path}")

    def run(self, expression: str) -> Any:
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> Any:
        end = time.monotonic() + seconds
        guarded = f"(() => {{ try {{ return {expression}; }} catch {{ return false; }} }})()"
        while not (found := self.run(guarded)):
            assert time.monotonic() < end, f"{expression} is never true; errors: {self.errors}"
            time.sleep(0.05)
        return found

    def press(self, key: str) -> None:
        text = {"Enter": "\r", " ": " "}.get(key)
        down = {"type": "keyDown", "key": key, "code": "Space" if key == " " else key, **_codes(key)}
        self.send("Input.dispatchKeyEvent", **down, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **_codes(key))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def box(self, selector: str) -> tuple[float, float, float]:
        """Left end, middle height and width of an element, after scrolling to it."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{element}.scrollIntoView({{block: 'center'}})")
        return self.run(f"(() => {{ const r = {element}.getBoundingClientRect();"
                        " return [r.x, r.y + r.height / 2, r.width]; })()")  # fmt: skip

    def click(self, selector: str) -> None:
        left, middle, width = self.box(selector)
        self.drag((left + width / 2, middle), (left + width / 2, middle))

    def picture(self, path: Path) -> None:
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self._out)
        os.close(self._in)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "the browser has ended"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        name, params = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:2000])
        if name == "Runtime.consoleAPICalled":
            self.errors.append(json.dumps(params["args"])[:2000])
        if name == "Log.entryAdded":
            self.errors.append(params["entry"]["text"])


def _codes(key: str) -> dict[str, int]:
    codes = {"Enter": 13, " ": 32, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
    return {"windowsVirtualKeyCode": codes[key]}
