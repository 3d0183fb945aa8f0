"""One session of dash.js in headless Chromium, behind `bbrlab emulate`; tools/dash.py calls it.

Usage: play.py '{"scheme", "dashjs", "session_s", "begin_s", "lowest_kbps", "log", "lead_s", "latency_s", "live_begin_s", "root"}'
Prints the session's figures as JSON. Exit status 1, with one line, if the session failed.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import contextlib
import datetime
import http.client
import json
import os
import pathlib
import re
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/report"))
from webdriver import FLAGS, Browser  # noqa: E402

NAME = "video.test"
PORTS = {"http": 8080, "https": 4433}
BESIDE_PORT = 8081
# Bytes that the competing flow reads at a time.
CHUNK = 65536
START_LIMIT_S = 30


def base_and_flags(scheme, server, log):
    """The server's address, and Chromium's flags to reach it."""
    host = f"{NAME}:{PORTS[scheme]}"
    flags = [flag for flag in FLAGS if scheme == "http" or flag != "--disable-quic"]
    flags += [f"--host-resolver-rules=MAP {NAME} {server}, MAP * ~NOTFOUND", "--autoplay-policy=no-user-gesture-required"]
    if scheme == "https":
        found = re.search(r"--spki (\S+)$", pathlib.Path(log).read_text(encoding="utf-8"), re.M)
        if not found:
            raise RuntimeError("the server has not printed its certificate's key")
        flags += [f"--origin-to-force-quic-on={host}", f"--ignore-certificate-errors-spki-list={found[1]}"]
    return f"{scheme}://{host}/", flags


def download(server, end):
    """The competing flow: one download until `end`."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(server, BESIDE_PORT, timeout=START_LIMIT_S)
        connection.request("GET", "/bytes/1GB")
        response = connection.getresponse()
        while time.monotonic() < end and response.read(CHUNK):
            pass


def write_live(root, age_s):
    """Writes the manifest of a live stream that began so many seconds ago: a segment is available once it has been produced."""
    text = pathlib.Path(root, "stream.mpd").read_text(encoding="utf-8")
    begun = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=age_s)
    live = f'type="dynamic" availabilityStartTime="{begun.strftime("%Y-%m-%dT%H:%M:%S.%f")}Z"'
    text = re.sub(r'type="static"\s*mediaPresentationDuration="[^"]*"', live, text)
    pathlib.Path(root, "live.mpd").write_text(text, encoding="utf-8")


def session(plan, server):
    """The figures of one session."""
    begun = time.monotonic()
    base, flags = base_and_flags(plan["scheme"], server, plan["log"])
    with Browser(flags) as browser:
        browser.open(f"{base}page.html", 400, 300, False)
        # Not over the link, where it would open the congestion window first.
        source = pathlib.Path(plan["dashjs"]).read_text(encoding="utf-8")
        browser.cdp("Runtime.evaluate", expression=source)
        if not browser.run("return typeof dashjs === 'object' && typeof play === 'function'"):
            raise RuntimeError("the page has no player")
        wait_s = begun + plan["begin_s"] - time.monotonic()
        if plan["begin_s"] and wait_s < 0:
            raise RuntimeError(f"the browser took {plan['begin_s'] - wait_s:.1f} s to start, the schedule allows {plan['begin_s']}")
        time.sleep(max(0, wait_s))
        if plan["lead_s"]:
            end = time.monotonic() + plan["lead_s"] + plan["session_s"]
            threading.Thread(target=download, args=(server, end), daemon=True).start()
            time.sleep(plan["lead_s"])
        if plan["latency_s"]:
            write_live(plan["root"], plan["live_begin_s"])
        browser.run("play(arguments[0], arguments[1], arguments[2])", plan["session_s"], plan["lowest_kbps"], plan["latency_s"])
        time.sleep(plan["session_s"])
        if not browser.wait_for("return window.session !== undefined", START_LIMIT_S):
            raise RuntimeError("the session has not ended")
        return browser.run("return window.session")


def main():
    try:
        print(json.dumps(session(json.loads(sys.argv[1]), os.environ["BBRLAB_SERVER_IP"])))
    except (OSError, RuntimeError) as error:
        sys.exit(f"play: {error}")


if __name__ == "__main__":
    main()
