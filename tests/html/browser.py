"""The system's Chromium, driven over its own pipe: no driver, no package, and everything that it asks for is seen."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
_PATIENCE = 240.0  # seconds for anything to happen, on a machine however busy
_AGAIN = 10.0  # seconds after which a click that led nowhere is made again


class Browser:
    """One headless Chromium with one page.

    `requests` are the addresses that pages asked for, `errors` what they wrote to the console as errors or threw.
    """

    def __init__(self, width: int = 1400, height: int = 900) -> None:
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._number = 0
        self._rest = b""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]  # out of the way of 3 and 4
        command = [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--disable-component-update",
            f"--user-data-dir={self._folder.name}", f"--window-size={width},{height}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        # Chromium reads file 3 and writes file 4.
        shell = f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=ends,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self._session = ""
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, address: str) -> None:
        """Load a page, and wait for its script to have shown a view."""
        self.ask("Page.navigate", url=address)
        # Until the load event is over, another view takes the place of this one in the history.
        loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd > 0"
        self.wait(f"document.readyState === 'complete' && document.body?.dataset.ready && {loaded}")

    def go(self, hash_: str) -> None:
        """Another view of the page that is open."""
        turn = self.run("document.body.dataset.ready")
        self.run(f"location.hash = {json.dumps(hash_)}")
        self.wait(f"document.body.dataset.ready !== {json.dumps(turn)}")

    def run(self, script: str) -> Any:
        """The value of some JavaScript."""
        told = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise AssertionError(f"{script}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until some JavaScript is true."""
        until = time.monotonic() + _PATIENCE
        while not self.run(f"!!({condition})"):
            assert time.monotonic() < until, f"it never came to be: {condition}"
            time.sleep(0.02)

    def texts(self, selector: str) -> list[str]:
        """What the elements say that are found, and shown."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].filter((e) => e.checkVisibility())"
        return self.run(f"{found}.map((e) => e.textContent.trim())") or []

    def click(self, selector: str) -> None:
        """A real click, with the mouse, in the middle of an element, once it lies where the mouse is sent."""
        find = f"document.querySelector({json.dumps(selector)})"
        place = f"(({{x, y, width, height}}) => [x + Math.min(width / 2, 300), y + height / 2])({find}.getBoundingClientRect())"
        until = time.monotonic() + _PATIENCE
        x = y = -1.0
        while not self.run(f"{find}.contains(document.elementFromPoint({x}, {y}))"):
            assert time.monotonic() < until, f"something lies over {selector}"
            self.run(f"{find}.scrollIntoView({{block: 'center'}})")
            self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            x, y = self.run(place)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, selector: str, condition: str) -> None:
        """Click what leads elsewhere until it did: rows laid out meanwhile may have moved it from under the mouse."""
        until = time.monotonic() + _PATIENCE
        while not self.run(f"!!({condition})"):
            assert time.monotonic() < until, f"{selector} does not lead to where {condition}"
            if self.run(f"!!document.querySelector({json.dumps(selector)})"):
                self.click(selector)
            soon = time.monotonic() + _AGAIN
            while time.monotonic() < soon and not self.run(f"!!({condition})"):
                time.sleep(0.02)

    def back(self) -> None:
        """The view before; not while the script runs that asks for it."""
        self.run("void setTimeout(() => history.back())")

    def press(self, key: str) -> None:
        """A key."""
        told: dict[str, Any] = {"key": key, "code": key}
        if len(key) == 1:
            told |= {"text": key}
        elif key == "Enter":
            told |= {"text": "\r", "windowsVirtualKeyCode": 13}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, **told)

    def type(self, text: str) -> None:
        """Text into whatever has the focus."""
        self.ask("Input.insertText", text=text)

    def dark(self, *, dark: bool = True) -> None:
        """As a system that is set to dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    @contextmanager
    def without_scripts(self) -> Iterator[None]:
        """The page that is open, read again where no script runs."""
        self.ask("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.ask("Page.reload")
            self.wait("document.readyState === 'complete'")
            yield
        finally:
            self.ask("Emulation.setScriptExecutionDisabled", value=False)

    def picture(self, path: Path) -> None:
        """What is seen, as a PNG."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(_PATIENCE)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    # -- the pipe: JSON, each ending in a zero byte

    def ask(self, method: str, **told: Any) -> dict[str, Any]:
        """A command and its answer; what else comes meanwhile is noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": told}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], _PATIENCE)
            assert ready, "Chromium does not answer"
            read = os.read(self._in, 1 << 20)
            assert read, f"Chromium ended with {self._process.poll()}"
            self._rest += read
        one, _, self._rest = self._rest.partition(b"\0")
        return json.loads(one)

    def _note(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(told["exceptionDetails"])[:2000])
            case "Runtime.consoleAPICalled" if told["type"] == "error":
                self.errors.append(str(told["args"])[:2000])
            case "Log.entryAdded" if told["entry"]["level"] == "error":
                self.errors.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
