#!/usr/bin/env python3
"""Opens a bbrlab report in headless Chromium, wide and narrow, light and dark, and checks what a reader relies on.

Usage: browser_test.py REPORT.html [--shots DIR]
Needs chromium and chromedriver (Debian: chromium, chromium-driver) and Python 3.9; no network, no other package.
Exit status: 0 all passed, 1 a check failed, 2 it could not run. The last line is `N passed, N failed`.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys

from webdriver import Browser

VIEWS = [(1440, 900), (390, 844)]
VERDICTS = ("holds", "misses (explained)", "fails")
# What a page may weigh, and how many windows of the first view it may be long with everything folded.
BYTES_MAX = 1_000_000
SCREENS_MAX = 15
ALLOWED_SCHEMES = ("file:", "data:", "blob:", "about:")
# A screenshot taller than this is cut; Chromium's own limit is 16384.
SHOT_HEIGHT_MAX = 16000
ARROW_RIGHT = "\ue014"
ESCAPE = "\ue00c"
ENTER = "\ue007"

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
         values: [...figure.querySelectorAll('.legend .value')].map((v) => v.textContent).filter((text) => text).length,
         known: [...figure.querySelectorAll('.legend .value')].map((v) => v.textContent).filter((text) => text && text !== '–').length,
         at: figure.querySelector('.at')?.textContent,
         ribbons: figure.querySelectorAll('.ribbons').length, states: figure.querySelector('.states-at')?.textContent };
"""

# What a figure's download buttons hand over: for each its type, its length, its first bytes and, for SVG, what is in it.
DOWNLOADS = """
const figure = document.querySelectorAll('figure')[arguments[0]];
const done = arguments[arguments.length - 1];
const real = URL.createObjectURL;
const caught = [];
URL.createObjectURL = (made) => { caught.push(made); return 'data:,'; };
const press = (label) => [...figure.querySelectorAll('.tools button')].find((button) => button.textContent === label).click();
['SVG', 'CSV', 'PNG'].forEach(press);
const end = Date.now() + 10000;
const wait = async () => {
  while (caught.length < 3 && Date.now() < end) await new Promise((next) => setTimeout(next, 20));
  URL.createObjectURL = real;
  const told = {};
  for (const blob of caught) {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    const text = blob.type === 'image/png' ? '' : await blob.text();
    const parsed = blob.type === 'image/svg+xml' ? new DOMParser().parseFromString(text, 'image/svg+xml') : null;
    told[blob.type] = { size: blob.size, head: [...bytes.slice(0, 4)], text: text.slice(0, 4000),
      paths: parsed ? parsed.querySelectorAll('path').length : 0, broken: parsed ? parsed.querySelectorAll('parsererror').length : 0,
      bad: parsed ? (text.match(/NaN|undefined|Infinity/g) || []).length : 0 };
  }
  done(told);
};
wait();
"""

# What stands in the first window before anything was touched.
FIRST_SCREEN = """
const within = (e) => { const box = e.getBoundingClientRect(); return box.top < innerHeight - 60 && box.bottom > 0 && box.width > 0; };
const any = (selector) => [...document.querySelectorAll(selector)].some(within);
return { heading: any('h1'), numbers: any('.numbers, .tally, .verdicts td'), picture: any('figure .plots, .thumbnails svg, .verdicts td, .heat td'),
         table: any('.runs table'), asked: document.querySelector('.head .facts') !== null || document.querySelector('.head .command') !== null,
         open: document.querySelectorAll('details.claim[open]').length, claims: document.querySelectorAll('details.claim').length,
         thumbnails: document.querySelectorAll('[data-thumbnail]').length, drawn: document.querySelectorAll('[data-thumbnail] svg path').length,
         height: document.documentElement.scrollHeight, window: innerHeight };
"""

FRAMES = """
return [...document.querySelectorAll('figure')].map((figure) => ({
  id: figure.id, anchor: figure.querySelector('a.anchor')?.getAttribute('href'), command: figure.querySelector('.command code')?.textContent || '',
  tools: [...figure.querySelectorAll('.tools button')].map((button) => button.textContent),
  named: [...figure.querySelectorAll('.tools button')].every((button) => button.getAttribute('aria-label')),
  images: [...figure.querySelectorAll('.panel canvas')].every((canvas) => canvas.getAttribute('role') === 'img' && canvas.getAttribute('aria-label')),
}));
"""

PAPER = """
const isOpen = () => [...document.querySelectorAll('details.claim, details.fold')].map((fold) => fold.open);
const before = isOpen().join();
dispatchEvent(new Event('beforeprint'));
const onPaper = [...document.querySelectorAll('figure')].map((figure) => figure.querySelectorAll('.on-paper svg path').length);
const all = isOpen().every(Boolean);
const theme = document.documentElement.dataset.theme;
dispatchEvent(new Event('afterprint'));
return { onPaper, all, theme, restored: isOpen().join() === before && !document.querySelector('.on-paper') };
"""


class Checks:
    """Counts what passed and says what failed."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.is_broken = False
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
// The charts learn of the scroll from an event, which comes with the next frame.
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const box = over.getBoundingClientRect();
  done({ x: box.left, y: box.top + box.height / 2, width: box.width });
})));
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


def check_cursor(browser, checks, figures):
    """One cursor for all panels of a figure."""
    known = 0
    for number in range(figures):
        box = centre_of_plot(browser, number)
        x = box["x"] + 0.6 * box["width"]
        browser.mouse(("move", x - 8, box["y"]), ("move", x, box["y"]))
        cursor = browser.run(CURSORS, number)
        apart = max(cursor["lefts"]) - min(cursor["lefts"])
        on_place = abs(cursor["lefts"][0] - 0.6 * box["width"]) < 3
        checks.that(apart <= 2 and on_place, f"figure {number}: the cursors of its charts stand together", cursor)
        named = not cursor["ribbons"] or cursor["states"]
        checks.that(named, f"figure {number}: the states under the cursor stand there in words", cursor)
        # Between points, and in a gap, there is no value; the legend then says so.
        checks.that(cursor["values"] > 0 and cursor["at"], f"figure {number}: the legend tells of the place under the cursor", cursor)
        known += cursor["known"]
    checks.that(known > 0, "legends show values under the cursor")


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


def check_first_screen(browser, checks, wide):
    """The answer stands on the first screen; the rest is folded, and not too long."""
    first = browser.run(FIRST_SCREEN)
    checks.that(first["heading"] and first["asked"], "the page opens with a heading and what was asked", first)
    checks.that(first["claims"] < 4 or first["open"] == 0, "four claims and more open folded", first)
    checks.that(first["thumbnails"] == 0 or first["drawn"] > first["thumbnails"], "every thumbnail is drawn", first)
    if wide:
        checks.that(first["numbers"] or first["table"], "the first screen has the answer in numbers", first)
        checks.that(first["picture"] or first["table"], "the first screen has a picture", first)
        screens = first["height"] / first["window"]
        checks.that(screens <= SCREENS_MAX, f"the page is at most {SCREENS_MAX} screens long", f"{screens:.1f}")


def check_frames(browser, checks):
    """Every figure has a link of its own that leads to it, its downloads, and the command that makes it."""
    frames = browser.run(FRAMES)
    for frame in frames:
        where = frame["id"]
        checks.that(frame["anchor"] == f"#{where}", f"{where}: it has a link of its own", frame["anchor"])
        checks.that({"PNG", "SVG", "CSV"} <= set(frame["tools"]) and frame["named"], f"{where}: it can be downloaded", frame["tools"])
        checks.that(frame["command"].startswith("bbrlab "), f"{where}: the command that makes it stands beneath", frame["command"])
        checks.that(frame["images"], f"{where}: its charts have names for screen readers")
    if frames:
        browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = false; }); scrollTo(0, 0);")
        browser.run("location.hash = arguments[0]", frames[-1]["id"])
        seen = "const box = document.getElementById(arguments[0]).getBoundingClientRect(); return box.height > 0 && box.top < innerHeight && box.bottom > 0;"
        shown = browser.wait_for(seen.replace("arguments[0]", json.dumps(frames[-1]["id"])), 3)
        checks.that(shown, "a link to the last figure unfolds what holds it and shows it")
        browser.run("history.replaceState(null, '', location.pathname); window.bbrlab.drawAll();")


def check_downloads(browser, checks, number):
    """What the buttons hand over is a picture, a drawing and a table."""
    told = browser.call("POST", "/execute/async", {"script": DOWNLOADS, "args": [number]})
    svg, png, csv = (told.get(kind, {}) for kind in ("image/svg+xml", "image/png", "text/csv"))
    brief = {kind: {key: value for key, value in one.items() if key != "text"} for kind, one in told.items()}
    checks.that(svg.get("paths", 0) > 0 and not svg.get("broken") and not svg.get("bad"), f"figure {number}: the SVG is whole", brief)
    checks.that(png.get("head") == [0x89, 0x50, 0x4E, 0x47] and png["size"] > 2000, f"figure {number}: the PNG is a picture", brief)
    lines = csv.get("text", "").splitlines()
    checks.that(len(lines) > 2 and lines[0].startswith("panel,series,"), f"figure {number}: the CSV holds values", lines[:2])


def check_fold(browser, checks):
    """A claim unfolds by the keyboard."""
    if not browser.run("return Boolean(document.querySelector('details.claim'))"):
        return
    browser.run("const fold = document.querySelector('details.claim'); fold.open = false; fold.querySelector('summary').focus();")
    browser.keys(ENTER)
    checks.that(browser.wait_for("return document.querySelector('details.claim').open", 3), "Enter unfolds a claim")


def check_paper(browser, checks):
    """On paper everything is unfolded, light, and drawn in lines; afterwards the page is as before."""
    paper = browser.run(PAPER)
    checks.that(all(paper["onPaper"]) and paper["all"] and paper["theme"] == "light", "on paper all is unfolded and drawn", paper)
    checks.that(paper["restored"], "after printing the page is as before", paper)


def check_filter(browser, checks):
    """Each button leaves as many rows as it counts."""
    counts = browser.run("""
return [...document.querySelectorAll('.tally button')].map((button) => {
  // Rows show where their claim is open: the filter opens those it needs.
  document.querySelectorAll('details.claim').forEach((fold) => { fold.open = button.dataset.filter === 'all'; });
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
    browser.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    check_first_screen(browser, checks, width > 600)
    if shots:
        browser.screenshot(shots / f"{width}-{'dark' if dark else 'light'}-first.png", width, height)
    check_drawn(browser, checks)
    check_text(browser, checks)
    check_frames(browser, checks)
    if shots:
        browser.run("window.scrollTo(0, 0)")
        full = browser.run("return document.documentElement.scrollHeight")
        browser.screenshot(shots / f"{width}-{'dark' if dark else 'light'}.png", width, min(full, SHOT_HEIGHT_MAX))
    if figures := browser.run("return window.bbrlab.figures"):
        # Colours change neither cursors nor downloads.
        figures = 1 if dark else figures
        check_cursor(browser, checks, figures)
        if width > 600:
            for number in range(figures):
                check_downloads(browser, checks, number)
            check_paper(browser, checks)
            browser.run("window.bbrlab.drawAll()")
            check_zoom(browser, checks)
            check_keyboard(browser, checks)
    check_filter(browser, checks)
    check_fold(browser, checks)
    check_theme(browser, checks)
    check_logs(browser, checks)


def in_browser(url, size, dark, shots):
    """All checks of one view in a new browser."""
    checks = Checks()
    try:
        with Browser() as browser:
            check_view(browser, checks, url, size, dark, shots)
    except (OSError, RuntimeError) as error:
        print(f"{checks.view or 'start'}: {error}", file=sys.stderr)
        checks.failed += 1
        checks.is_broken = True
    return checks


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
    size = args.report.stat().st_size
    checks.that(size < BYTES_MAX, f"the page is smaller than {BYTES_MAX:,} bytes", f"{size:,}")
    url = args.report.resolve().as_uri()
    # The light views, of which more is checked, begin; each has a browser of its own.
    views = [(view, dark) for dark in (False, True) for view in VIEWS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda view: in_browser(url, *view, args.shots), views))
    passed, failed = (sum(getattr(one, kind) for one in [checks, *done]) for kind in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed")
    return 2 if any(one.is_broken for one in done) else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
