#!/usr/bin/env python3
"""The playground in headless Chromium: speed, steps, changes, addresses, keyboard, accessibility, sizes and themes; and in Firefox.

Usage: browser_test.py [URL] [--shots DIR] [--strict]     without a URL, out/web is served here with the policy of `bbrlab play`
Times are printed; `--strict` holds them to the limits that a quiet machine meets, and plays for ten minutes.
Exit status: 0 every check holds, 1 one fails.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import functools
import html
import http.server
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/report"))
import firefox  # noqa: E402
from webdriver import FLAGS, Browser  # noqa: E402

PAINT_MAX_MS, PACKET_MAX_MS, CHANGE_MAX_MS, LONG_TASK_MAX_MS, FPS_MIN = 1000, 2000, 100, 50, 30
# CPU time of a picture: ours, a third of what 30 pictures a second leave.
CPU_MAX_MS = 11
PLAY_S, MEMORY_MAX_BYTES = 600, 150e6
is_strict = False
BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/debug/bbrlab"))
WIDE, PHONE = (1400, 1000), (390, 844)
BUSY = "rate=50mbit&rtt=40ms&buffer=4bdp&duration=30s&flow=bbr3&flow=cubic@1s&flow=bbr1@2s"
SITUATIONS, CASES = 14 + 7, 10
LESSONS = 10
# A page's own keys of WebDriver.
RIGHT, TAB, SPACE = "\ue014", "\ue004", " "

failures = []


def check(name, holds, detail=""):
    """Notes one result."""
    print(f"{'ok' if holds else 'FAILS':5} {name}{f': {detail}' if detail != '' else ''}", flush=True)
    if not holds:
        failures.append(name)


def check_time(name, happened, in_time, detail):
    """Notes one time: what is timed has to happen, and `--strict` also holds it to its limit."""
    check(name, happened and (in_time or not is_strict), detail)


def serve(folder=ROOT / "out/web", policy=True):
    """Serves a folder on loopback, with the policy of the command. Returns its address."""
    source = (ROOT / "crates/cli/src/command/play.rs").read_text(encoding="utf-8")
    header = re.sub(r"\\\s+", "", re.search(r'POLICY: &str = "(.*?)";', source, re.S).group(1))

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

        def end_headers(self):
            if policy:
                self.send_header("Content-Security-Policy", header)
            super().end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


class Page:
    """The playground in one browser."""

    def __init__(self, browser, url):
        self.browser, self.url = browser, url

    def open(self, fragment="", size=WIDE, dark=False, is_still=False):
        self.browser.open("about:blank", *size, dark)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if is_still else "no-preference"}]
        self.browser.cdp("Emulation.setEmulatedMedia", features=features)
        self.browser.call("POST", "/url", {"url": self.url + (f"#{fragment}" if fragment else "")})
        if not self.browser.wait_for("return !!(window.bbrlab && window.bbrlab.isReady)"):
            sys.exit(f"the page did not start: {self.note()!r}")

    def run(self, script, *args):
        return self.browser.run(script, *args)

    def note(self):
        return self.run("return document.getElementById('note').textContent")

    def player(self, field):
        return self.run(f"return window.bbrlab.player.{field}")

    def settle(self):
        """Waits until the simulation has reached the clock."""
        if not self.browser.wait_for("const p = window.bbrlab.player; return p.waiting === 0 && (p.clock === p.now_ns || p.over)"):
            check("the simulation reaches the clock", False, self.run("const p = window.bbrlab.player; return [p.clock, p.now_ns, p.waiting]"))

    def changed(self, action):
        """Whether the action opened a run, or changed its scenario or what is hidden, and the simulation then went on."""
        self.run("window.shown = () => { const [run] = window.bbrlab.player.views; return [run, run.slot.given, window.bbrlab.state.hide]; };"
                 f"window.before = window.shown(); {action}")
        return self.browser.wait_for("const p = window.bbrlab.player;"
                                     "return window.shown().some((one, nth) => one !== window.before[nth]) && p.now_ns > 0 && p.waiting <= 1")

    def pause(self):
        self.run("const b = document.getElementById('play'); if (window.bbrlab.player.playing) b.click()")
        self.settle()

    def cpu_ms(self):
        """CPU time of the page's main thread."""
        return 1000 * next(one["value"] for one in self.browser.cdp("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration")

    def memory(self):
        """Bytes of the page's heap, and of the module with the worker's heap, as far as the browser counts them."""
        self.browser.cdp("HeapProfiler.collectGarbage")
        self.run("window.bytes = null; window.bbrlab.engine.ask({ type: 'memory' }).then((bytes) => { window.bytes = bytes; })")
        self.browser.wait_for("return window.bytes !== null")
        return self.run("return [performance.memory.usedJSHeapSize, window.bytes]")

    def errors(self):
        return [entry["message"] for entry in self.browser.log("browser") if "favicon" not in entry["message"]]


def speed(page):
    page.open()
    paint = page.run("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1")
    check_time("first paint", paint >= 0, paint <= PAINT_MAX_MS, f"{paint:.0f} ms")
    page.browser.wait_for("return window.bbrlab.player.stats.firstPacket_ms > 0")
    first = page.player("stats.firstPacket_ms")
    check_time("first packet moves", first > 0, first <= PACKET_MAX_MS, f"{first:.0f} ms")
    page.open(BUSY + "&speed=1")
    page.run("""window.long = []; new PerformanceObserver((list) => list.getEntries().forEach((one) => window.long.push(one.duration)))
        .observe({ type: 'longtask' }); window.from = [performance.now(), window.bbrlab.player.stats.frames, window.bbrlab.player.stats.moved];""")
    page.browser.cdp("Performance.enable", timeDomain="threadTicks")
    before, drawn = page.cpu_ms(), page.player("stats.frames")
    time.sleep(4)
    worked = (page.cpu_ms() - before) / (page.player("stats.frames") - drawn)
    fps, moved = page.run("""const s = window.bbrlab.player.stats; const d = (performance.now() - window.from[0]) / 1000;
        return [(s.frames - window.from[1]) / d, (s.moved - window.from[2]) / d]""")
    long = page.run("return window.long")
    check_time("pictures a second, three flows at 50 Mbit/s in real time", moved > 0, min(fps, moved) >= FPS_MIN, f"{fps:.0f}, of them {moved:.0f} moved")
    check_time("CPU time of a picture", worked > 0, worked <= CPU_MAX_MS, f"{worked:.1f} ms")
    # A page without a long task has nothing that must happen.
    if is_strict:
        check("no task of the page longer than 50 ms", max(long, default=0) <= LONG_TASK_MAX_MS, f"{len(long)} tasks, longest {max(long, default=0):.0f} ms")
    waits = []
    for step in range(5):
        page.run("""window.bbrlab.player.stats.change_ms = 0; const s = document.getElementById('key-rate'); s.value = String(60 + arguments[0] * 3);
            s.dispatchEvent(new Event('input', { bubbles: true }))""", step)
        page.browser.wait_for("return window.bbrlab.player.stats.change_ms > 0")
        waits.append(page.player("stats.change_ms"))
        time.sleep(0.4)
    check_time("a slider takes effect", min(waits) > 0, max(waits) <= CHANGE_MAX_MS, f"at most {max(waits):.0f} ms")
    check("a slider's changes are in the address", page.run("return decodeURIComponent(location.hash)").count(":rate=") == 5)


def written(page, kind):
    """What the page writes to a file: `result` or `toml`."""
    page.run("""window.done = null; window.bbrlab.engine.ask({ type: arguments[0], given: window.bbrlab.state.given })
        .then((text) => { window.done = text; }, (error) => { window.done = String(error); });""", kind)
    page.browser.wait_for("return window.done !== null")
    return page.run("return window.done")


def plain(document):
    """A result without the one field that differs between equal runs."""
    return re.sub(r'"wall_s": [^,\n]*', '"wall_s": 0.0', document)


def printed(line):
    """What a line that was copied from the page prints, with the command under test."""
    return plain(subprocess.run(["sh", "-c", line.replace("bbrlab", BBRLAB, 1)], capture_output=True, text=True, check=False).stdout)


def takeaway(page):
    """The result, the command, the TOML and the Python of a run that was changed on the way are one run."""
    page.open("path=wifi&duration=4s&flow=bbr3,startup_pacing_gain=2.5&flow=cubic@500ms&t=1.234567")
    page.settle()
    check("the scenario is the address's", page.note() == "", page.note())
    page.run("""const f = document.querySelector('input[aria-label="Rate, exact value"]'); f.value = '30mbit'; f.dispatchEvent(new Event('change'))""")
    page.browser.wait_for("return window.bbrlab.state.given.keys.some(([key]) => key === 'schedule')")
    result = plain(written(page, "result"))
    line = page.run("return window.bbrlab.command()")
    check("the command gives the bytes of the page's result", result == printed(line) and '"schema": 1' in result, line)
    with tempfile.TemporaryDirectory(prefix="bbrlab-web-") as folder:
        pathlib.Path(folder, "scenario.toml").write_text(written(page, "toml"), encoding="utf-8")
        check("so does the TOML", result == printed(f"bbrlab run {folder}/scenario.toml --json -"))
        compile(page.run("return window.bbrlab.python()"), "copied", "exec")
        subprocess.run([BBRLAB, "run", "--quiet", "--duration", "2s", "--seed", "5", "--flow", "bbr3", "--flow", "cubic", "--report", f"{folder}/r.html"], check=False)
        report = pathlib.Path(folder, "r.html").read_text(encoding="utf-8")
    link = re.search(r'href="http://127\.0\.0\.1:8227/#([^"]*)"', report).group(1)
    page.open(html.unescape(link))
    page.browser.wait_for("return window.bbrlab.player.now_ns > 0")
    shown = page.run("const [view] = window.bbrlab.player.views; return [view.looks.map(({ cc }) => cc).join(), view.checked.scenario.seed]")
    check("a figure of a report opens its run", shown == ["bbr3,cubic", 5] and not page.note(), f"{shown} {page.note()}")


def site(page):
    """The landing page moves, and one page of each kind is accessible and breaks no policy, if the site has been built."""
    if not (ROOT / "out/site/index.html").exists():
        return
    url = serve(ROOT / "out/site", policy=False)
    axe = (ROOT / "web/node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    for name in ("index.html", "search.html#dualpi2", "read/README.html", "read/docs/play.html", "read/docs/notebooks/bbr-in-ten-minutes.html", "api/rust/index.html"):
        for size, dark in ((WIDE, False), (PHONE, True)):
            page.browser.open(url + name, *size, dark)
            if "search" in name:
                page.browser.wait_for("return !!document.querySelector('#found li')")
                first = page.run("return document.querySelector('#found a').href")
                check("the search finds a section", "/docs/l4s.html#" in first, first)
            if name == "index.html":
                page.browser.wait_for("return !!document.querySelector('#picture canvas')")
                label = "return document.querySelector('#picture canvas').getAttribute('aria-label')"
                first = page.run(label)
                check("the landing page's picture moves", page.browser.wait_for(f"return (() => {{ {label} }})() !== {first!r}"))
            page.browser.cdp("Runtime.evaluate", expression=axe)
            page.run("window.axed = null; axe.run(document).then((found) => { window.axed = found.violations.map((v) => v.id + ' ' + v.nodes.slice(0, 2).map((n) => n.target).join()); })")
            page.browser.wait_for("return window.axed !== null", 60)
            check(f"axe finds nothing: {name} {size[0]} px", not (found := page.run("return window.axed")), found or "")
            check(f"no sideways scrolling: {name} {size[0]} px", page.run("return document.documentElement.scrollWidth - innerWidth") <= 0)
    for name in ("claims.html", "api/rust/bbrlab_core/index.html", "api/rust/bbrlab_sim/scenario/struct.Scenario.html", "api/python/bbrlab.html", "api/python/bbrlab/gym.html"):
        page.browser.open(url + name, *WIDE, False)
        check(f"a page of another tool has its text: {name}", len(page.run("return document.body.innerText")) > 500)
    check("no page of the site breaks its policy", not (found := [line for line in page.errors() if "A preload for" not in line]), found[:2])


def time_travel(page):
    page.open("rate=20mbit&rtt=40ms&buffer=2bdp&flow=bbr3&flow=cubic@1s&duration=10s")
    page.pause()
    # Without the notes of single events, which the page empties once it has shown them.
    frame = """const f = window.bbrlab.player.views[0].frame, all = Array.from(f.subarray(0, 11 + f[1] * 28 + f[2] * 5));
        all[3] = 0; return all.join()"""
    page.run("window.bbrlab.player.seek(3.217e9)")
    page.settle()
    first = page.run(frame)
    page.run("window.bbrlab.player.seek(9e9)")
    page.settle()
    page.run("window.bbrlab.player.seek(3.217e9)")
    page.settle()
    check("a scrub back gives the same moment", first == page.run(frame) and len(first) > 1000, f"{first.count(',')} values")
    before = page.player("now_ns")
    for button, field in (("step-packet", 20), ("step-ack", 23)):
        counter = f"return window.bbrlab.player.views[0].frame[11 + {field}]"
        count = page.run(counter)
        page.run(f"document.getElementById('{button}').click()")
        page.settle()
        check(f"{button} is one step", page.run(counter) > count and page.player("now_ns") >= before)
    rounds = "return window.bbrlab.player.views[0].frame[11 + 9]"
    count = page.run(rounds)
    page.run("document.getElementById('step-round').click()")
    page.settle()
    check("step-round is one round trip", page.run(rounds) == count + 1, page.run(rounds) - count)
    clocks = page.run("const p = window.bbrlab.player; p.playing = true; const before = p.clock; p.tick(-0.05); p.playing = false; return [before, p.clock]")
    check("a picture from before the page's start does not turn the clock back", clocks[0] == clocks[1], clocks)


def addresses(page):
    page.open()
    rng = random.Random(1)
    words = ["rate", "rtt", "flow", "buffer", "view", "step", "t", "speed", "json", "schedule", "with", "aqm", "x", "", "hide", "duration", "repeat", "on"]
    values = ["", "-1", "1e999", "NaN", "bbr9", "10mbit", "{", "{}", "null", "%", "🙂", "a" * 500, "0s", "99999999h", "bbr3*100001", "1s:rate=", "game", "learn", "kernel",
              "<img src=x>", "\x00", "7"]
    bad = []
    for nth in range(200):
        pairs = [(rng.choice(words), rng.choice(values)) for _ in range(rng.randint(1, 5))]
        fragment = urllib.parse.urlencode(pairs) if rng.random() < 0.8 else "".join(chr(rng.randint(33, 1000)) for _ in range(40))
        page.run("location.hash = arguments[0]", f"{fragment}&n{nth}=1")
        page.browser.wait_for(f"return window.bbrlab.restores > {nth}")
        time.sleep(0.06)  # Chromium takes more than 200 navigations in ten seconds for a fault
        note = page.note()
        flows = page.run("return window.bbrlab.player.views.length")
        if not note or "\n" in note or flows < 1 or "undefined" in note:
            bad.append((fragment[:80], note))
    check("200 nonsense addresses: one line, and a run", not bad, bad[:3] if bad else "")
    check("nonsense leaves the console empty", not (found := page.errors()), found[:2])
    for fragment, part in (("rate=10mbt", "is not a rate; write a number with bit"), ("flow=bbr9", "did you mean"), ("repeat=3", "a page shows one seed"),
                           ("on=kernel", "a browser has no kernel"), ("rte=1", "did you mean rate?"), ("view=x", "write pipe, pair")):
        page.open(fragment)
        check(f"#{fragment} says what is accepted", part in page.note(), page.note())
    page.errors()


def fields(page):
    page.open()
    page.pause()
    page.run("""const f = document.querySelector('input[aria-label="Rate, exact value"]'); f.value = '12 parsecs'; f.dispatchEvent(new Event('change'))""")
    page.browser.wait_for("return !!document.getElementById('key-rate-error').textContent")
    line = page.run("return document.getElementById('key-rate-error').textContent")
    check("a field says what it accepts", "write a number with bit" in line, line)
    page.run("""const f = document.querySelector('input[aria-label="Rate, exact value"]'); f.value = '5mbit'; f.dispatchEvent(new Event('change'))""")
    page.settle()
    check("a right value takes the line away", page.run("return document.getElementById('key-rate-error').textContent") == "")
    page.run("document.querySelector('#flows details summary').click()")
    page.browser.wait_for("return document.querySelectorAll('#flows .parameter').length > 5")
    page.run("""const s = document.querySelector('#flows .parameter input'); s.value = '150'; s.dispatchEvent(new Event('input'));
        s.dispatchEvent(new Event('change'))""")
    page.browser.wait_for("return window.bbrlab.state.given.flows[0].includes('=')")
    check("a parameter's slider is in the flow", page.run("return window.bbrlab.state.given.flows[0]").startswith("bbr3,"),
          page.run("return window.bbrlab.state.given.flows[0]"))


def borrowed(page):
    """Schedules and flows that a page has from a path's name or a JSON file."""
    page.open("path=lte&flow=bbr3&duration=20s")
    page.pause()
    page.run("window.bbrlab.player.seek(15e9)")
    page.settle()
    changes = "return window.bbrlab.player.views[0].checked.changes.length"
    count = page.run(changes)
    page.run("""const f = document.querySelector('input[aria-label="Rate, exact value"]'); f.value = '7mbit'; f.dispatchEvent(new Event('change'))""")
    page.browser.wait_for("return (window.bbrlab.state.given.keys.find(([key]) => key === 'schedule') ?? [''])[1]?.includes('7mbit')")
    page.settle()
    check("a change keeps the schedule of a path's name", count > 0 and page.run(changes) == count + 1, f"{count} changes, then {page.run(changes)}")
    json = urllib.parse.quote('{"rate": "10mbit", "flow": ["cubic@5s,rtt=80ms"]}')
    page.open(f"json={json}")
    page.pause()
    page.run("[...document.querySelectorAll('#flows button')].find((b) => /add/i.test(b.textContent)).click()")
    page.browser.wait_for("return window.bbrlab.state.given.flows.length > 1")
    flows = page.run("return window.bbrlab.state.given.flows")
    check("another flow leaves those of a JSON file as they are", flows[0] == "cubic@5s,rtt=80ms", flows)


def keyboard(page):
    page.open()
    page.pause()
    page.run("document.body.focus(); document.activeElement.blur()")
    page.browser.keys(SPACE)
    check("space plays", page.player("playing"))
    page.browser.keys(SPACE)
    page.browser.keys("h")
    check("H hides the path and shows the models", page.run("return document.body.classList.contains('hiding') && !!document.querySelector('#model td.truth')"))
    page.browser.keys("h")
    before = page.player("now_ns")
    page.browser.keys("r")
    page.settle()
    check("R steps a round trip", page.player("now_ns") > before)
    page.run("document.getElementById('play').focus()")
    seen = set()
    for _ in range(60):
        seen.add(page.run("const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.tagName"))
        page.browser.keys(TAB)
    wanted = {"play", "step-packet", "step-ack", "step-round", "speed", "hide", "time", "preset", "key-rate", "key-rtt", "key-buffer", "key-loss", "key-jitter", "key-aqm",
              "key-ack_aggregation", "key-duration", "key-seed", "Flow-add", "share-link", "share-json", "whole"}
    check("every control has its turn", wanted <= seen, sorted(wanted - seen))
    page.open("view=game")
    page.run("document.getElementById('hand').focus()")
    before = page.run("return document.getElementById('hand').value")
    page.browser.keys(RIGHT, RIGHT, RIGHT)
    page.browser.wait_for("return window.bbrlab.player.views[0].frame[11 + 2] > 0")
    pacing = page.run("return window.bbrlab.player.views[0].frame[11 + 2]")
    check("arrow keys steer", float(page.run("return document.getElementById('hand').value")) > float(before) and pacing > 0, f"{pacing / 1e6:.1f} Mbit/s")


def accessible(page):
    axe = (ROOT / "web/node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    for name, fragment, size, dark in (("light", "", WIDE, False), ("dark", "hide=1&t=2", WIDE, True), ("phone", "", PHONE, False), ("learn", "view=learn&step=4", WIDE, False),
                                       ("game", "view=game", WIDE, True), ("pair", "view=pair&flow=bbr1", PHONE, True)):
        page.open(fragment, size, dark)
        page.browser.cdp("Runtime.evaluate", expression=axe)
        page.run("window.axed = null; axe.run(document).then((found) => { window.axed = found.violations.map((v) => v.id + ' ' + v.nodes.slice(0, 2).map((n) => n.target).join()); })")
        page.browser.wait_for("return window.axed !== null", 60)
        found = page.run("return window.axed")
        check(f"axe finds nothing: {name}", not found, found or "")
        overflow = page.run("return document.documentElement.scrollWidth - innerWidth")
        check(f"no sideways scrolling: {name}", overflow <= 0, overflow)
    page.errors()


def still(page):
    page.open("", WIDE, False, True)
    time.sleep(0.5)
    check("reduced motion: nothing moves by itself", page.player("now_ns") == 0 and "Motion is reduced" in page.note())


def views(page):
    for nth in range(LESSONS):
        page.open(f"view=learn&step={nth}")
        runs = page.changed("document.querySelector('#lesson .try').click()")
        note = page.note()
        check(f"lesson {nth + 1} runs, and its attempt", runs and not note, note)
    page.open()
    for nth in range(1, SITUATIONS + CASES + 1):
        runs = page.changed(f"const s = document.getElementById('preset'); s.selectedIndex = {nth}; s.dispatchEvent(new Event('change'))")
        title = page.run("return document.getElementById('preset').selectedOptions[0].textContent")
        check(f"situation: {title}", runs and page.note() and page.player("views.length") == 1, page.note())
    missing = page.run("return [...document.querySelectorAll('#missing li')].map((one) => one.textContent)")
    check("every other case of the draft has its reason", len(missing) == 22 - CASES and all(": " in line for line in missing), len(missing))
    page.open("view=game")
    page.run("window.bbrlab.player.seek(29.9e9)")
    page.browser.wait_for("return !!document.querySelector('.verdict').textContent", 30)
    check("the game is on one link", page.run("return window.bbrlab.player.views.map(({ looks }) => looks.map(({ cc }) => cc).join()).join(';')") == "you,bbr3,cubic")
    parts = page.run("return [...document.querySelectorAll('.score')].map((one) => one.textContent)")
    check("each flow has goodput, delay and what it left", len(parts) == 3 and all("fair share" in part and "RTT" in part and "Others" in part for part in parts), parts)
    check("the game has a score", "Your score is" in page.run("return document.querySelector('.verdict').textContent"),
          page.run("return document.querySelector('.verdict').textContent"))
    check("the console is empty", not (found := page.errors()), found[:2])


def bounded(page):
    """Whatever is played and sought, a run has one set of samples, and the module does not grow."""
    page.open(BUSY.replace("30s", "8s"))
    counts, bytes_ = [], []
    for _ in range(4):
        page.run("window.bbrlab.player.seek(8e9)")
        page.settle()
        counts.append(page.run("return window.bbrlab.player.views[0].samples.count"))
        bytes_.append(page.memory()[1])
        page.run("window.bbrlab.player.seek(0)")
        page.settle()
    check("samples are bounded", len(set(counts)) == 1 and 100 < counts[0] <= 6002, counts)
    check("the module's memory is bounded", bytes_[-1] == bytes_[1] and bytes_[-1] <= MEMORY_MAX_BYTES, f"{bytes_[-1] / 1e6:.0f} MB")


def memory(page):
    """Ten minutes of play, run after run."""
    page.open(BUSY + "&speed=1")
    end = time.monotonic() + PLAY_S
    while time.monotonic() < end:
        time.sleep(5)
        page.run("if (!window.bbrlab.player.playing) document.getElementById('play').click()")
    heap, module = page.memory()
    check("memory after ten minutes", heap + module <= MEMORY_MAX_BYTES, f"page {heap / 1e6:.0f} MB, module {module / 1e6:.0f} MB")


def in_firefox(url):
    """What differs between browsers: the module, the worker, canvas and keys."""
    if not firefox.found():
        print("skipped: no firefox")
        return
    with firefox.Firefox() as browser:
        page = Page(browser, url)
        go = lambda fragment: (browser.open(url + fragment), browser.wait_for("return !!(window.bbrlab && window.bbrlab.isReady)"))[1]
        check("Firefox: the page starts", go(""))
        check("Firefox: packets move", browser.wait_for("return window.bbrlab.player.now_ns > 0") and not page.note(), page.note())
        browser.keys(SPACE)
        check("Firefox: space pauses", not page.player("playing"))
        browser.keys("h")
        check("Firefox: H hides the path", page.run("return document.body.classList.contains('hiding')"))
        go("#rate=30mbit&rtt=20ms&duration=2s&seed=3&flow=bbr3&flow=cubic")
        found, line = plain(written(page, "result")), page.run("return window.bbrlab.command()")
        check("Firefox: the result has the command's bytes", found == printed(line) and '"schema": 1' in found, line)
        go("#flow=bbr9")
        check("Firefox: nonsense is answered in a line", "did you mean" in page.note(), page.note())
        go("#view=game")
        check("Firefox: the game runs", browser.wait_for("return window.bbrlab.player.now_ns > 5e8"))


def shots(page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, fragment, size, dark, wait in (
            ("wide", "t=6.3", WIDE, False, 1), ("phone", "t=6.3", PHONE, False, 1), ("dark", "path=cable&duration=30s&flow=cubic&flow=bbr3@2s&t=4.2", WIDE, True, 1),
            ("hidden", "hide=1&t=5", WIDE, False, 1), ("learn", "view=learn&step=3", WIDE, False, 2), ("game", "view=game", WIDE, False, 3),
            ("pair", "view=pair&rate=20mbit&rtt=40ms&buffer=2bdp&flow=bbr3&with=cubic&t=3", WIDE, False, 1), ("game-phone", "view=game", PHONE, True, 2)):
        page.open(fragment, size, dark)
        time.sleep(wait)
        page.browser.screenshot(str(folder / f"{name}.png"), *size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?")
    parser.add_argument("--shots", type=pathlib.Path)
    parser.add_argument("--only", help="names of checks, separated by commas")
    parser.add_argument("--strict", action="store_true")
    args = parser.parse_args()
    global is_strict
    is_strict = args.strict
    url = args.url or serve()
    with Browser(FLAGS) as browser:
        page = Page(browser, url)
        if args.shots:
            shots(page, args.shots)
        for one in (speed, time_travel, bounded, takeaway, fields, borrowed, keyboard, still, accessible, views, addresses, site, memory):
            if one.__name__ in args.only.split(",") if args.only else args.strict or one is not memory:
                one(page)
    if not args.only or "in_firefox" in args.only.split(","):
        in_firefox(url)
    print(f"web: {len(failures)} checks fail: {'; '.join(failures)}" if failures else "web: every check holds")
    sys.exit(1 if failures else 0)


main()
