"""A real browser, controlled through WebDriver over plain HTTP, without a client library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, Self

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # In a container, /dev/shm may be too small for the browser.
    "--disable-dev-shm-usage",
    # A request to any other host fails, and the error shows up on the page's console.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
PATIENCE = 120.0
STARTED = re.compile(rb"started successfully on port (\d+)")


class Browser:
    """Chromium with the width of a phone, and its driver; leaving the block ends both."""

    def __init__(self, folder: Path, *, width: int = 390, height: int = 844) -> None:
        self._folder = folder
        self._metrics = {"width": width, "height": height, "pixelRatio": 1.0, "touch": False}

    def __enter__(self) -> Self:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        try:
            self._address = f"http://127.0.0.1:{self._port()}/session"
            self._address += f"/{self._open()}"
        except BaseException:
            self._end()
            raise
        return self

    def _port(self) -> int:
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if found := STARTED.search(line):
                return int(found[1])
        raise AssertionError("chromedriver ended before it had begun")

    def _open(self) -> str:
        options = {
            "binary": shutil.which("chromium"),
            "args": [*FLAGS, f"--user-data-dir={self._folder / 'profile'}"],
            "mobileEmulation": {"deviceMetrics": self._metrics},
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._ask("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        return str(answer["sessionId"])

    def __exit__(self, *_: object) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._end()

    def _end(self) -> None:
        self._driver.terminate()
        self._driver.communicate()

    def open(self, url: str) -> None:
        """Open the page, and return when the page and everything it requests has loaded."""
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str) -> Any:
        """Return what a script returns on the page."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": []})

    def complaints(self) -> list[str]:
        """Return the console messages since the last call, except informational ones."""
        said = self._ask("POST", "/se/log", {"type": "browser"})
        return [one["message"] for one in said if one["level"] in {"WARNING", "SEVERE"}]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if method == "DELETE" else json.dumps(body or {}).encode()
        request = urllib.request.Request(  # noqa: S310 - our own driver
            self._address + path,
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - as above
            return json.load(answer)["value"]
