"""A headless Chromium, spoken to over a pipe: what a page asks for, complains of, and looks like.

By its DevTools protocol: JSON, each message ended by a NUL, on the browser's descriptors 3 and 4.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ANSWER_S_MAX = 30.0
# The browser has its two ends as 3 and 4; on their way there they must not meet each other.
MOVE = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def found() -> str | None:
    """The path of a browser, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a running browser. `requests` are the addresses that it asked for, `complaints`
    what its console and its log say."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._rest = b""
        self._count = 0
        self._session = ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = 0

    def open_page(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime", "Security"):
            self.call(f"{domain}.enable")

    def go(self, page: Path | str, *, width: int, height: int = 1200, dark: bool = False) -> None:
        """Load a file, or an address, in a window of a size, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])
        before = self._loaded
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        until = time.monotonic() + ANSWER_S_MAX
        while self._loaded == before:
            self._take(until)

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page, or what its promise comes to."""
        told = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in told:
            raise AssertionError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def picture(self, path: Path) -> None:
        """What the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def press(self, kind: str, x: float, y: float) -> None:
        """A move, press or release of the mouse."""
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        number = self._count
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + ANSWER_S_MAX
        while True:
            told = self._take(until)
            if told.get("id") == number:
                assert "error" not in told, (method, told["error"])
                answer: dict[str, Any] = told["result"]
                return answer

    def _take(self, until: float) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self._rest:
            left = until - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._read], [], [], left)[0]:
                data = os.read(self._read, 1 << 20)
                assert data, "the browser is gone"
                self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        self._note(told.get("method", ""), told.get("params", {}))
        return told

    def _note(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded += 1
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Network.webSocketCreated":
                self.requests.append(params["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case _:
                pass


@contextmanager
def running(program: str, profile: Path) -> Iterator[Browser]:
    """A browser with one page, gone at the end with all its processes."""
    their_read, our_write = os.pipe()
    our_read, their_write = os.pipe()
    words = (program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update",
             f"--user-data-dir={profile}", "--remote-debugging-pipe")  # fmt: skip
    moved = (sys.executable, "-c", MOVE, str(their_read), str(their_write), *words)
    process = subprocess.Popen(
        moved, pass_fds=[their_read, their_write], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.close(their_read)
    os.close(their_write)
    try:
        browser = Browser(our_read, our_write)
        browser.open_page()
        yield browser
    finally:
        os.close(our_write)
        os.close(our_read)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: nobody else is in it
            process.wait()
