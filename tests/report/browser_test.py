#!/usr/bin/env python3
"""Opens a bbrlab report in headless Chromium, wide and narrow, light and dark, and checks what a reader relies on.

Usage: browser_test.py REPORT.html [--shots DIR]
Needs chromium and chromedriver (Debian: chromium, chromium-driver) and Python 3.9; no network, no other package.
Exit status: 0 all passed, 1 a check failed, 2 it could not run. The last line is `N passed, N failed`.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import json
import pathlib
import sys

from webdriver import Browser

VIEWS = [(1400, 900), (390, 844)]
VERDICTS = ("holds", "falls short", "fails")
ALLOWED_SCHEMES = ("file:", "data:", "blob:", "about:")
# A screenshot taller than this is cut; Chromium's own limit is 16384.
SHOT_HEIGHT_MAX = 16000
ARROW_RIGHT = "\ue014"
ESCAPE = "\ue00c"

# For each chart: how many pixels have the colour of one of its series; for ribbons, how many are painted at all.
PIXELS = """
const near = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]) + Math.abs(a[2] - b[2]) < 60;
return [...document.querySelectorAll('figure')].map((figure) => {
  const heads = [...figure.querySelectorAll('.panel-head')];
  return [...figure.querySelectorAll('.panel')].map((panel, i) => {
    const canvas = panel.querySelector('canvas');
    if (!canvas || !canvas.width || !canvas.height) return { kind: 'no canvas', painted: 0, wanted: 1 };
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const ribbon = panel.classList.contains('ribbons');
    const colors = ribbon ? [] : [...heads[i].querySelectorAll('.legend svg')].map((svg) => getComputedStyle(svg).color.match(/\\d+/g).map(Number));
    let painted = 0;
    for (let p = 0; p < data.length; p += 4) {
      if (data[p + 3] > 128 && (ribbon || colors.some((color) => near(color, data.subarray(p, p + 3))))) painted++;
    }
    return { kind: ribbon ? 'ribbons' : heads[i].innerText.split('\\n')[0], painted, wanted: ribbon ? 800 : colors.length ? 20 : 0 };
  });
});
"""

CURSORS = """
const figure = document.querySelectorAll('figure')[arguments[0]];
const left = (line) => new DOMMatrix(getComputedStyle(line).transform).m41;
return { lefts: [...figure.querySelectorAll('.u-cursor-x')].map(left),
         values: [...figure.querySelectorAll('.legend .value')].map((v) => v.textContent).filter((text) => text && text !== '–').length,
         at: figure.querySelector('.at')?.textContent,
         ribbons: figure.querySelectorAll('.ribbons').length, states: figure.querySelector('.states-at')?.textContent };
"""

CSV = """
const figure = document.querySelectorAll('figure')[0];
const real = URL.createObjectURL;
let blob = null;
URL.createObjectURL = (made) => { blob = made; return 'data:,'; };
[...figure.querySelectorAll('.tools button')].find((button) => button.textContent === 'CSV').click();
URL.createObjectURL = real;
const done = arguments[arguments.length - 1];
blob.text().then(done);
"""


class Checks:
    """Counts what passed and says what failed."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.view = ""

    def that(self, holds, what, detail=""):
        """One check."""
        if holds:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED {self.view}: {what}{f': {detail}' if detail else ''}")


def centre_of_plot(browser, figure, panel=0):
    """Where a panel's plot lies in the window, once it is scrolled there."""
    return browser.run("""
const over = document.querySelectorAll('figure')[arguments[0]].querySelectorAll('.u-over')[arguments[1]];
over.scrollIntoView({ block: 'center' });
const box = over.getBoundingClientRect();
return { x: box.left, y: box.top + box.height / 2, width: box.width };
""", figure, panel)


def check_drawn(browser, checks):
    """Every figure has its charts, and they are not blank."""
    browser.run("window.bbrlab.drawAll()")
    browser.wait_for("return !document.querySelector('figure[data-drawn=\"false\"]')", 60)
    hook = browser.run("return { ...window.bbrlab, drawAll: undefined, frames: document.querySelectorAll('figure').length }")
    checks.that(hook["errors"] == [], "the page reports no error", hook["errors"])
    checks.that(hook["figures"] == hook["frames"] == hook["drawn"], "every figure is drawn", hook)
    browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for number, panels in enumerate(browser.run(PIXELS)):
        blank = [p for p in panels if p["painted"] < p["wanted"]]
        checks.that(panels and not blank, f"figure {number} shows its data", blank or "no panel")


def check_text(browser, checks):
    """Claims, escaping, width."""
    page = browser.run("""
const table = document.getElementById('claims-table');
const rows = table ? [...table.querySelectorAll('tr[data-verdict]')] : [];
return { wanted: table ? Number(table.dataset.rows) : 0, rows: rows.length,
         verdicts: rows.map((row) => row.querySelector('.verdict').textContent.trim()),
         symbols: rows.filter((row) => row.querySelector('.verdict svg').getBoundingClientRect().width > 8).length,
         intruders: document.querySelectorAll('main script, main img, main iframe, main object').length,
         ids: document.querySelectorAll('[id]').length - new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size,
         broken: [...document.querySelectorAll('a[href^="#"]')].map((a) => decodeURIComponent(a.hash.slice(1))).filter((id) => !document.getElementById(id)),
         scroll: document.documentElement.scrollWidth, inner: document.documentElement.clientWidth,
         text: document.querySelector('h1').textContent.length };
""")
    checks.that(page["text"] > 0, "the page has a heading")
    checks.that(page["rows"] == page["wanted"], "the claims table has all its rows", page)
    checks.that(all(v in VERDICTS for v in page["verdicts"]), "each verdict stands there in words", page["verdicts"])
    checks.that(page["symbols"] == page["rows"], "each verdict has its symbol", page["symbols"])
    checks.that(page["intruders"] == 0, "no text of the report became an element")
    checks.that(page["ids"] == 0, "each id occurs once", page["ids"])
    checks.that(page["broken"] == [], "each link inside the page has its target", page["broken"])
    checks.that(page["scroll"] <= page["inner"], "the page does not scroll sideways", f"{page['scroll']} > {page['inner']}")


def check_cursor(browser, checks):
    """One cursor for all panels of a figure."""
    for number in range(browser.run("return document.querySelectorAll('figure').length")):
        box = centre_of_plot(browser, number)
        x = box["x"] + 0.6 * box["width"]
        browser.mouse(("move", x - 8, box["y"]), ("move", x, box["y"]))
        cursor = browser.run(CURSORS, number)
        apart = max(cursor["lefts"]) - min(cursor["lefts"])
        on_place = abs(cursor["lefts"][0] - 0.6 * box["width"]) < 3
        checks.that(apart <= 2 and on_place, f"figure {number}: the cursors of its charts stand together", cursor)
        named = not cursor["ribbons"] or cursor["states"]
        checks.that(named, f"figure {number}: the states under the cursor stand there in words", cursor)
        checks.that(cursor["values"] > 0 and cursor["at"], f"figure {number}: the legend shows values under the cursor", cursor)


def check_zoom(browser, checks):
    """A drag zooms every chart of the figure, a double click resets."""
    zoomed = "return !document.querySelector('figure .tools button').disabled"
    box = centre_of_plot(browser, 0)
    checks.that(not browser.run(zoomed), "the first figure opens unzoomed")
    at = [("move", box["x"] + share * box["width"], box["y"]) for share in (0.3, 0.5, 0.6)]
    browser.mouse(at[0], ("down",), at[1], at[2], ("up",))
    checks.that(browser.wait_for(zoomed, 3), "a drag zooms in")
    browser.mouse(at[1], ("down",), ("up",), ("down",), ("up",))
    checks.that(browser.wait_for(zoomed.replace("!", "", 1), 3), "a double click resets the zoom")


def check_keyboard(browser, checks):
    """The cursor and the zoom work without a mouse."""
    browser.mouse(("move", 2, 2))
    browser.run("const plots = document.querySelector('figure .plots'); plots.scrollIntoView({ block: 'center' }); plots.focus();")
    browser.keys(ARROW_RIGHT, ARROW_RIGHT)
    cursor = browser.run(CURSORS, 0)
    checks.that(cursor["at"] and cursor["values"] > 0, "arrow keys move the cursor", cursor)
    browser.keys("+")
    zoomed = "return !document.querySelector('figure .tools button').disabled"
    checks.that(browser.wait_for(zoomed, 3), "the plus key zooms in")
    browser.keys(ESCAPE)
    checks.that(browser.wait_for(zoomed.replace("!", "", 1), 3), "Escape shows the whole range again")


def check_tools(browser, checks):
    """The CSV of the first figure holds its values."""
    text = browser.call("POST", "/execute/async", {"script": CSV, "args": []})
    lines = text.splitlines()
    checks.that(lines[0].startswith("panel,series,") and len(lines) > 2, "the CSV holds values", lines[:2])


def check_filter(browser, checks):
    """Each button leaves as many rows as it counts."""
    counts = browser.run("""
return [...document.querySelectorAll('.tally button')].map((button) => {
  button.click();
  const shown = [...document.querySelectorAll('#claims-table tr[data-verdict]')].filter((row) => row.getClientRects().length).length;
  return [Number(button.querySelector('b').textContent), shown, button.getAttribute('aria-pressed')];
});
""")
    checks.that(all(n == shown and pressed == "true" for n, shown, pressed in counts), "each filter shows as many rows as it counts", counts)
    browser.run("document.querySelector('.tally button')?.click()")


def check_theme(browser, checks):
    """The button changes the colours, and back."""
    colors = browser.run("""
const color = () => getComputedStyle(document.body).backgroundColor;
const button = document.getElementById('theme');
const seen = [color()];
for (let i = 0; i < 2; i++) { button.click(); seen.push(color()); }
localStorage.clear();
return seen;
""")
    checks.that(colors[0] == colors[2] != colors[1], "the theme button changes the colours and back", colors)


def check_logs(browser, checks):
    """Nothing on the console, nothing on the network."""
    loud = [entry["message"] for entry in browser.log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    checks.that(not loud, "the console stays silent", loud)
    events = (json.loads(entry["message"])["message"] for entry in browser.log("performance"))
    asked = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    # The browser's own new-tab page loads beside ours when the browser starts.
    urls = [ask["request"]["url"] for ask in asked if not ask["documentURL"].startswith("chrome:")]
    foreign = [url[:120] for url in urls if not url.startswith(ALLOWED_SCHEMES)]
    checks.that(urls and not foreign, "the page asks the network for nothing", foreign or "no request was logged at all")


def check_view(browser, checks, url, size, dark, shots):
    """All checks in one window size and theme."""
    width, height = size
    checks.view = f"{width} px {'dark' if dark else 'light'}"
    browser.log("browser"), browser.log("performance")
    browser.open(url, width, height, dark)
    if not browser.wait_for("return Boolean(window.bbrlab)"):
        checks.that(False, "the page's script runs", browser.log("browser"))
        return
    check_drawn(browser, checks)
    check_text(browser, checks)
    if shots:
        browser.run("window.scrollTo(0, 0)")
        full = browser.run("return document.documentElement.scrollHeight")
        browser.screenshot(shots / f"{width}-{'dark' if dark else 'light'}.png", width, min(full, SHOT_HEIGHT_MAX))
    if browser.run("return window.bbrlab.figures > 0"):
        check_cursor(browser, checks)
        check_tools(browser, checks)
        if width > 600:
            check_zoom(browser, checks)
            check_keyboard(browser, checks)
    check_filter(browser, checks)
    check_theme(browser, checks)
    check_logs(browser, checks)


def main():
    """Parses the command line and runs every view."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=pathlib.Path, help="a report written by bbrlab")
    parser.add_argument("--shots", type=pathlib.Path, help="directory for screenshots, one a view")
    args = parser.parse_args()
    if not args.report.is_file():
        print(f"{args.report}: no such file; write one with `bbrlab reproduce --report FILE.html`", file=sys.stderr)
        return 2
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    try:
        with Browser() as browser:
            for size in VIEWS:
                for dark in (False, True):
                    check_view(browser, checks, args.report.resolve().as_uri(), size, dark, args.shots)
    except (OSError, RuntimeError) as error:
        print(f"{checks.view or 'start'}: {error}", file=sys.stderr)
        print(f"{checks.passed} passed, {checks.failed + 1} failed")
        return 2
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
