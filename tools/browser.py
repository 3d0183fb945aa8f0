#!/usr/bin/env python3
"""Fetches from `bbrlab serve` over HTTP/3 with headless Chromium, an independent client. On loopback only.

Usage: browser.py [SIZE (20MB)]     $BBRLAB is the command (target/release/bbrlab)
Needs chromium and chromedriver (Debian: chromium, chromium-driver). Exit status: 0 the download was complete and over h3, 1 it was not.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/report"))
from webdriver import FLAGS, Browser  # noqa: E402

PAGE = "<!doctype html><title>bbrlab</title><body></body>"
FETCH = """
window.seen = null;
(async () => {
  const bytes = await (await fetch('/bytes/' + arguments[0])).arrayBuffer();
  const sender = await (await fetch('/.well-known/bbrlab')).json();
  const timing = performance.getEntriesByType('resource').find((one) => one.name.includes('/bytes/'));
  window.seen = { bytes: bytes.byteLength, page: performance.getEntriesByType('navigation')[0].nextHopProtocol,
    fetched: timing.nextHopProtocol, ms: timing.responseEnd - timing.startTime, sender };
})().catch((error) => { window.seen = { error: String(error) }; });
"""


def main():
    size = sys.argv[1] if len(sys.argv) > 1 else "20MB"
    command = os.environ.get("BBRLAB", str(ROOT / "target/release/bbrlab"))
    with tempfile.TemporaryDirectory(prefix="bbrlab-root-") as root:
        pathlib.Path(root, "index.html").write_text(PAGE, encoding="utf-8")
        serve = [command, "serve", "--quic", "0", "--root", root, "--memory", size, "--cc", "bbr3"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            try:
                seen = fetch(server.stdout.readline(), size)
            finally:
                server.terminate()
    print(seen)
    sender = seen.get("sender", {})
    if seen.get("page") != "h3" or seen.get("fetched") != "h3" or sender.get("cc") != "bbr3":
        sys.exit("browser: it did not come over HTTP/3")
    print(f"browser: {seen['bytes']} bytes over h3 in {seen['ms']:.0f} ms; RTT {sender['rtt_p50_ms']:.2f} ms, "
          f"{sender['retransmits']} of {sender['packets']} packets lost")


def fetch(said, size):
    """The browser's report of a download from the server with this output."""
    found = re.fullmatch(r"https://127\.0\.0\.1:(\d+)/ .*--spki (\S+)\n", said)
    if not found:
        sys.exit(f"browser: the server says {said!r}")
    port, spki = found.groups()
    flags = [flag for flag in FLAGS if flag != "--disable-quic"]
    flags += ["--host-resolver-rules=MAP localhost 127.0.0.1", f"--origin-to-force-quic-on=localhost:{port}",
              f"--ignore-certificate-errors-spki-list={spki}"]
    with Browser(flags) as browser:
        browser.open(f"https://localhost:{port}/", 800, 600, False)
        browser.run(FETCH, size)
        browser.wait_for("return window.seen !== null")
        return browser.run("return window.seen")


main()
