"""A small client of Marionette, Firefox's own protocol, with nothing but Python's standard library.

It ends only the process that it started.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

NAMES = ("firefox-esr", "firefox")
START_LIMIT_S = 60
CALL_LIMIT_S = 120
PREFERENCES = {"marionette.port": 0, "datareporting.policy.dataSubmissionEnabled": False, "app.update.enabled": False,
               "browser.shell.checkDefaultBrowser": False, "network.captive-portal-service.enabled": False,
               "network.connectivity-service.enabled": False, "services.settings.server": "data:,"}


def found():
    """The command of an installed Firefox, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Firefox:
    """One headless Firefox with one session; use it in a `with` block."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="bbrlab-firefox-", ignore_cleanup_errors=True)
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
        pathlib.Path(self.profile.name, "user.js").write_text("\n".join(lines), encoding="utf-8")
        command = [found(), "--headless", "--marionette", "--no-remote", "--profile", self.profile.name]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.number = 0
        try:
            self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.profile.cleanup()

    def _connect(self):
        port = pathlib.Path(self.profile.name, "MarionetteActivePort")
        end = time.monotonic() + START_LIMIT_S
        while not (port.exists() and port.read_text(encoding="utf-8").strip()):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("firefox did not start")
            time.sleep(0.1)
        self.socket = socket.create_connection(("127.0.0.1", int(port.read_text(encoding="utf-8"))), CALL_LIMIT_S)
        self.stream = self.socket.makefile("rb")
        self._read()
        self.call("WebDriver:NewSession", {})

    def _read(self):
        length = b""
        while (byte := self.stream.read(1)) != b":":
            if not byte:
                raise RuntimeError("firefox closed the connection")
            length += byte
        return json.loads(self.stream.read(int(length)))

    def call(self, name, parameters):
        """One command of the session."""
        self.number += 1
        message = json.dumps([0, self.number, name, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._read()
        if error:
            raise RuntimeError(f"{name}: {error['error']}: {error['message']}")
        return result

    def open(self, url):
        self.call("WebDriver:Navigate", {"url": "about:blank"})
        self.call("WebDriver:Navigate", {"url": url})

    def run(self, script, *args):
        """The value that the script's body returns."""
        return self.call("WebDriver:ExecuteScript", {"script": script, "args": list(args)})["value"]

    def wait_for(self, script, limit_s=30):
        """Whether the script's value became true in time."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self.run(script):
                return True
            time.sleep(0.05)
        return False

    def keys(self, *keys):
        """Keys pressed and released, one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("WebDriver:PerformActions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
