"""A small WebDriver client for one headless Chromium, with nothing but Python's standard library.

It ends only the processes that it started.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
START_LIMIT_S = 30
CALL_LIMIT_S = 120
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
)


class Browser:
    """One chromedriver and its one session; use it in a `with` block."""

    def __init__(self, flags=FLAGS):
        self.flags = flags
        self.driver = None
        self.session = None
        self.profile = tempfile.TemporaryDirectory(prefix="bbrlab-browser-", ignore_cleanup_errors=True)

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.session:
            try:
                self.call("DELETE", "")
            except (OSError, RuntimeError):
                pass  # the driver below ends its browser in any case
        if self.driver:
            self.driver.terminate()
            try:
                self.driver.wait(10)
            except subprocess.TimeoutExpired:
                self.driver.kill()
            # A browser that the driver was starting is in its process group, and would stay.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
        self.profile.cleanup()

    def _start(self):
        binary = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
        driver = shutil.which("chromedriver")
        if not binary or not driver:
            raise RuntimeError("no chromium or no chromedriver in PATH; on Debian: apt install chromium chromium-driver")
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True)
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise RuntimeError("chromedriver ended before it named its port")
        options = {"binary": binary, "args": [*self.flags, f"--user-data-dir={self.profile.name}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options,
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        answer = self._request("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = answer["sessionId"]
        # On a busy machine a page of fifty figures takes its time to be laid out for paper.
        self.call("POST", "/timeouts", {"script": CALL_LIMIT_S * 1000})

    def _request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_LIMIT_S)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def call(self, method, path, body=None):
        """One command of this session."""
        return self._request(method, f"/session/{self.session}{path}", body)

    def cdp(self, command, **params):
        """One command of the browser's own protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def run(self, script, *args):
        """The value that the script's body returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def log(self, kind):
        """What was logged since the last call."""
        return self.call("POST", "/se/log", {"type": kind})

    def wait_for(self, script, limit_s=START_LIMIT_S):
        """Whether the script's value became true in time."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self.run(script):
                return True
            time.sleep(0.05)
        return False

    def open(self, url, width, height, dark):
        """Opens a page in a window of this size, with this preference of colours."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self.call("POST", "/url", {"url": url})

    def mouse(self, *steps):
        """Moves and clicks: ("move", x, y), ("down",), ("up",), in window coordinates."""
        kinds = {"move": "pointerMove", "down": "pointerDown", "up": "pointerUp"}
        actions = []
        for name, *at in steps:
            action = {"type": kinds[name], "button": 0}
            if at:
                action = {"type": kinds[name], "x": round(at[0]), "y": round(at[1]), "duration": 20, "origin": "viewport"}
            actions.append(action)
        source = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.call("POST", "/actions", {"actions": [source]})

    def keys(self, *keys):
        """Keys pressed and released, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def screenshot(self, path, width, height):
        """The top `height` pixels of the page as a PNG file."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
