"""A real Chromium without a screen, driven through chromedriver's own protocol (W3C WebDriver)."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
)
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "ArrowRight": "\ue014", "ArrowDown": "\ue015"}

_STARTED = re.compile(r"successfully on port (\d+)")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def missing() -> str | None:
    """What is not installed of what these tests need, in words."""
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed" if lacking else None


@dataclass(frozen=True)
class Browser:
    """One browser with one empty profile; `session` is its address at chromedriver."""

    session: str

    def open(self, page: Path) -> None:
        """Load a file, and wait until its timeline can be used."""
        self._call("POST", "/url", {"url": page.as_uri()})
        self.wait("performance.getEntriesByName('usable').length || !document.getElementById('chart')")

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a JavaScript expression; `arguments[0]` and so on are what is given."""
        return self._call("POST", "/execute/sync", {"script": f"return {script}", "args": list(arguments)})

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression holds, asked anew for each frame."""
        script = f"""const done = arguments[0];
            const ask = () => requestAnimationFrame(({condition}) ? () => done() : ask);
            ask();"""
        self._call("POST", "/execute/async", {"script": script, "args": []})

    def text(self, selector: str) -> str:
        """What a person reads there."""
        return str(self.run("document.querySelector(arguments[0]).innerText", selector))

    def box(self, selector: str) -> Mapping[str, float]:
        """left, top, right, bottom, width and height in the window."""
        return dict(
            self.run("document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector)
        )

    def click(self, selector: str) -> None:
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        self._call("POST", f"/element/{found[_ELEMENT]}/click", {})

    def press(self, *keys: str) -> None:
        """Press and release keys, one after the other, on what has the focus."""
        typed = [KEYS.get(key, key) for key in keys]
        steps = [{"type": kind, "value": key} for key in typed for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": steps})

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a point of the window."""
        self._act(_mouse([_move(x, y)]))

    def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        down, up = {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}
        middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
        self._act(_mouse([_move(*begin), down, _move(*middle), _move(*end), up]))

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the page's window, and the colours that the system prefers."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", size)
        colours = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.devtools("Emulation.setEmulatedMedia", {"features": colours})

    def screenshot(self, *, whole_page: bool = False) -> bytes:
        """A PNG."""
        shot = self.devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole_page})
        return base64.b64decode(shot["data"])

    def console(self) -> list[str]:
        """What the console said since it was last asked: errors, refusals, warnings."""
        return [f"{entry['level']}: {entry['message']}" for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since it was last asked."""
        messages = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = [each for each in messages if each["method"] == "Network.requestWillBeSent"]
        return [str(each["params"]["request"]["url"]) for each in sent]

    def devtools(self, command: str, parameters: Mapping[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _log(self, kind: str) -> list[dict[str, Any]]:
        return list(self._call("POST", "/se/log", {"type": kind}))

    def _act(self, actions: Mapping[str, Any]) -> None:
        self._call("POST", "/actions", {"actions": [actions]})

    def _call(self, method: str, path: str, content: Mapping[str, Any]) -> Any:
        return _call(method, self.session + path, content)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty folder as its profile; it ends with the block."""
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    try:
        port = next(found[1] for line in driver.stdout if (found := _STARTED.search(line)))
        address = f"http://127.0.0.1:{port}/session"
        options = {
            "goog:chromeOptions": {"args": [*FLAGS, f"--user-data-dir={profile}"]},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = _call("POST", address, {"capabilities": {"alwaysMatch": options}})
        session = f"{address}/{made['sessionId']}"
        try:
            yield Browser(session)
        finally:
            _call("DELETE", session, None)
    finally:
        driver.terminate()
        driver.wait()


def _mouse(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}


def _move(x: float, y: float) -> Mapping[str, Any]:
    return {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}


def _call(method: str, address: str, content: Mapping[str, Any] | None) -> Any:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method=method)
    # Straight to chromedriver on this machine, whatever proxy is set.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=60) as answer:
        return json.load(answer)["value"]
