#!/usr/bin/env python3
"""Adaptive video in a real player beside the simulator's: Chromium with dash.js plays a stream that `bbrlab serve` sends through
`bbrlab emulate`; the simulator runs the same paths with `video=throughput` and the encoded stream's real bitrates. For each pair of
sessions on one path, or with one congestion control, the difference of stalled time and of bitrate must have the same sign in both.

Usage: dash.py [--live] [--json FILE] [PATH…] [CONTROL…]   one session each of all paths and controls, unless some are named; live: with a latency
       dash.py --from FILE…                                means of the sessions in such files; the simulator runs, no browser does
       dash.py --list                                      names of paths and controls
Exit status: 0 if all signs agree, 1 if one does not or a session failed, 2 for wrong arguments or a missing requirement.
In real time, about 65 s a session, with the privileges of `bbrlab emulate`. tools/setup.sh dash installs what is missing.
env: BBRLAB (target/release/bbrlab); DASHJS (out/dash/node_modules/dashjs)
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/release/bbrlab"))
DASHJS = pathlib.Path(os.environ.get("DASHJS", ROOT / "out/dash/node_modules/dashjs"))
SCRIPT = "dist/modern/umd/dash.all.min.js"
INSTALL = "tools/setup.sh dash installs it"

# Bitrates asked of the encoder, kbit/s: the ladder of docs/applications.md.
LADDER_KBPS = [300, 750, 1200, 1850, 2850]
# Length of a segment, and the latency that a live player aims at. Those of live video are ours, usual for a low latency without chunks.
KINDS = {
    "on demand": {"segment_s": 4, "latency_s": None},
    "live": {"segment_s": 1, "latency_s": 3},
}
# Ours: long enough for two changes of the rate. The stream outlasts session and buffer, or a live session that begins this late.
SESSION_S = 60
STREAM_S = 108
LIVE_BEGIN_S = 20
# Frames per second; a picture is small and of few operations, because only its bytes matter.
FRAME_RATE = 10
# Time from the start of the link to the start of a session with a schedule, for the browser to start in.
BEGIN_S = 20
# Simulated sessions, of seeds 1 to this; their means are compared.
SEEDS = 10
# Differences up to these have no sign. Ours, set before the first measurement: a stall that a viewer notices, and a tenth of the
# ladder's smallest step.
STALL_S = 0.5
BITRATE_SHARE = 0.05
# Most that start-up delay, stalls and played time may differ from the length of a session.
SUM_S = 0.5
SESSION_LIMIT_S = 150
FIGURES = ("startup_s", "stalls", "stalled_s", "bitrate_bps", "switches", "latency_s")

# Head start of the competing flow. If both start at once, the bitrate depends on the tenths of a second to the first request.
LEAD_S = 5

# Keys of `bbrlab run` and `emulate`; `schedule` counts from the start of the session, `beside` is a competing download.
PATHS = {
    "ample": {"rate": "8mbit", "rtt": "40ms"},
    "slow": {"rate": "1mbit", "rtt": "40ms"},
    "lossy": {"rate": "8mbit", "rtt": "40ms", "loss": "2%"},
    "far": {"rate": "8mbit", "rtt": "200ms", "loss": "5%"},
    "drop": {"rate": "4mbit", "rtt": "40ms", "schedule": [(10, "rate=800kbit"), (40, "rate=4mbit")]},
    "beside": {"rate": "3mbit", "rtt": "40ms", "beside": "cubic"},
}
BUFFER = "100ms"
# Scheme and options of `bbrlab serve`, and the flow of the simulator.
CONTROLS = {
    "cubic": ("http", "--tcp $BBRLAB_SERVER_IP:8080 --tcp-cc cubic", "cubic"),
    "bbr1": ("http", "--tcp $BBRLAB_SERVER_IP:8080 --tcp-cc bbr1", "bbr1"),
    "h3-bbr3": ("https", "--quic $BBRLAB_SERVER_IP:4433 --cc bbr3", "bbr3,transport=quic:s2n"),
}


class Fault(Exception):
    """A session that failed."""


def refuse(message):
    """Ends with one line and status 2."""
    print(f"dash: {message}", file=sys.stderr)
    sys.exit(2)


def output_of(command, limit_s=SESSION_LIMIT_S):
    """Standard output of a command; a failure is a fault with the last line of its errors."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=limit_s, check=False,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise Fault(f"{pathlib.Path(command[0]).name} has not ended within {limit_s} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Fault(f"{pathlib.Path(command[0]).name} ended with status {done.returncode}: {last}")
    return done.stdout


def encode(root, segment_s):
    """Writes stream and manifest; returns the real mean bitrates, bit/s, which the manifest has too."""
    command = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-f", "lavfi"]
    command += ["-i", f"testsrc2=size=320x180:rate={FRAME_RATE}:duration={STREAM_S}"]
    names = [f"v{place}" for place in range(len(LADDER_KBPS))]
    command += ["-filter_complex", f"split={len(names)}" + "".join(f"[{name}]" for name in names)]
    for place, (name, kbps) in enumerate(zip(names, LADDER_KBPS)):
        command += ["-map", f"[{name}]"]
        for key in ("b", "minrate", "maxrate", "bufsize"):
            command += [f"-{key}:v:{place}", f"{kbps}k"]
    # Constant bitrate: `nal-hrd=cbr` fills up what the picture does not need.
    command += ["-c:v", "libx264", "-threads", "1", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-bf", "0"]
    command += ["-g", FRAME_RATE * segment_s, "-keyint_min", FRAME_RATE * segment_s, "-sc_threshold", "0", "-x264-params", "nal-hrd=cbr:force-cfr=1"]
    command += ["-f", "dash", "-seg_duration", segment_s, "-use_template", "1", "-use_timeline", "0"]
    output_of([*command, "-adaptation_sets", "id=0,streams=v", root / "stream.mpd"])
    manifest = (root / "stream.mpd").read_text(encoding="utf-8")
    ladder = []
    for place in range(len(LADDER_KBPS)):
        sizes = [file.stat().st_size for file in root.glob(f"chunk-stream{place}-*.m4s")]
        if len(sizes) != STREAM_S // segment_s:
            raise Fault(f"ffmpeg wrote {len(sizes)} segments of bitrate {place}, expected {STREAM_S // segment_s}")
        ladder.append(sum(sizes) * 8 // STREAM_S)
        manifest = re.sub(rf'(<Representation id="{place}"[^>]* bandwidth=)"\d+"', rf'\1"{ladder[-1]}"', manifest)
    (root / "stream.mpd").write_text(manifest, encoding="utf-8")
    return ladder


def path_options(path, offset_s):
    """Options of `bbrlab run` and `emulate`, with the schedule this much later."""
    options = ["--buffer", BUFFER]
    for key in ("rate", "rtt", "loss"):
        if key in path:
            options += [f"--{key}", path[key]]
    if "schedule" in path:
        options += ["--schedule", ";".join(f"{at + offset_s}s:{change}" for at, change in path["schedule"])]
    return options


def played(path, control, kind, root, ladder, log):
    """A session in Chromium."""
    scheme, options, _ = CONTROLS[control]
    begin_s = BEGIN_S if "schedule" in path else 0
    server = f"exec '{BBRLAB}' serve --root '{root}' {options} --log >'{log}' 2>&1"
    if "beside" in path:
        other = f"serve --memory 1GB --tcp $BBRLAB_SERVER_IP:8081 --tcp-cc {path['beside']}"
        server = f"'{BBRLAB}' {other} >/dev/null 2>&1 & {server}"
    plan = {"scheme": scheme, "dashjs": str(DASHJS / SCRIPT), "session_s": SESSION_S, "begin_s": begin_s,
            "lowest_kbps": ladder[0] / 1000, "log": str(log), "lead_s": LEAD_S if "beside" in path else 0,
            "latency_s": KINDS[kind]["latency_s"], "live_begin_s": LIVE_BEGIN_S, "root": str(root)}
    command = [BBRLAB, "emulate", *path_options(path, begin_s), "--data", "down", "--server", server]
    command += ["--", sys.executable, ROOT / "tools/dash/play.py", json.dumps(plan)]
    try:
        figures = json.loads(output_of(command))
    except Fault as fault:
        # The server's own reason, if it had one.
        reasons = re.findall(r"^bbrlab: .*$", log.read_text(encoding="utf-8"), re.M) if log.exists() else []
        raise Fault("; ".join([str(fault), *reasons])) from fault
    lines = re.findall(r"^(\S+:\d+) \S+ GET \S+\.m4s 200$", log.read_text(encoding="utf-8"), re.M)
    figures["connections"] = len(set(lines))
    expected = "h3" if scheme == "https" else "http/1.1"
    if figures["fault"]:
        raise Fault(f"dash.js: {figures['error']}")
    if figures["protocols"] != [expected]:
        raise Fault(f"the segments came over {', '.join(figures['protocols']) or 'nothing'}, expected {expected}")
    if figures["startup_s"] is None:
        raise Fault(f"no picture within {SESSION_S} s")
    total = figures["startup_s"] + figures["stalled_s"] + figures["played_s"]
    if abs(total - figures["session_s"]) > SUM_S:
        raise Fault(f"start-up, stalls and played time are {total:.2f} s, the session {figures['session_s']:.2f}")
    return figures


def simulated(path, control, kind, ladder):
    """Figures of the simulator's sessions, one for each seed."""
    segment_s, latency_s = KINDS[kind]["segment_s"], KINDS[kind]["latency_s"]
    video = "/".join(f"{bps / 1000}kbit" for bps in ladder) + f":segment={segment_s}s" + (f":live={latency_s}s" if latency_s else "")
    lead_s = LEAD_S if "beside" in path else 0
    name, _, options = CONTROLS[control][2].partition(",")
    flow = ",".join([f"{name}@{lead_s}s", *filter(None, [options]), f"video=throughput:{video}"])
    # Without a jitter of the starts, every seed of a lossless path gives the same session.
    flows = ["--start-jitter", path["rtt"], "--flow", flow]
    if "beside" in path:
        flows += ["--flow", path["beside"]]
    sessions = []
    for seed in range(1, SEEDS + 1):
        command = [BBRLAB, "run", *path_options(path, 0), *flows, "--duration", f"{lead_s + SESSION_S}s", "--seed", seed, "--json", "-"]
        (video_result,) = [flow["video"] for flow in json.loads(output_of(command))["flows"] if flow.get("video")]
        if video_result["startup_s"] is None:
            video_result["startup_s"] = SESSION_S
        sessions.append(video_result)
    return sessions


def mean(sessions):
    """Mean figures of sessions."""
    return {key: statistics.mean(one[key] for one in sessions) for key in FIGURES if sessions[0].get(key) is not None}


def row(path, control, real, model):
    """One line of the table: Chromium's figures, then the simulator's."""
    cells = [f"{real['stalls']:.1f} / {model['stalls']:.1f}", f"{real['stalled_s']:.1f} / {model['stalled_s']:.1f}"]
    cells += [f"{real['startup_s']:.2f} / {model['startup_s']:.2f}"]
    cells += [f"{real['bitrate_bps'] / 1e6:.2f} / {model['bitrate_bps'] / 1e6:.2f}", f"{real['switches']:.1f} / {model['switches']:.1f}"]
    if "latency_s" in model:
        cells += [f"{real['latency_s']:.1f} / {model['latency_s']:.1f}"]
    return f"| {path} | {control} | {' | '.join(cells)} |"


def stall_sign(one, other):
    """-1, 0 or 1: which of two sessions stalled longer."""
    difference = one["stalled_s"] - other["stalled_s"]
    return 0 if abs(difference) <= STALL_S else (1 if difference > 0 else -1)


def bitrate_sign(one, other):
    """-1, 0 or 1: which of two sessions had the higher mean bitrate."""
    difference = one["bitrate_bps"] - other["bitrate_bps"]
    limit = BITRATE_SHARE * max(one["bitrate_bps"], other["bitrate_bps"])
    return 0 if abs(difference) <= limit else (1 if difference > 0 else -1)


def compare(cells):
    """Prints how many signs agree, and each that does not; returns their number."""
    pairs = [(a, b) for a, b in itertools.combinations(cells, 2) if a[0] == b[0] or a[1] == b[1]]
    total = 0
    for measure, sign in (("stalled time", stall_sign), ("bitrate", bitrate_sign)):
        wrong = []
        for one, other in pairs:
            real, model = sign(cells[one][0], cells[other][0]), sign(cells[one][1], cells[other][1])
            if real != model:
                kind = "opposite" if real * model < 0 else "in one only"
                found = f"Chromium {'<=>'[real + 1]}, simulator {'<=>'[model + 1]}"
                wrong.append(f"  {'/'.join(one)} and {'/'.join(other)}: {found} ({kind})")
        print(f"{measure}: {len(pairs) - len(wrong)} of {len(pairs)} pairs agree in sign", *wrong, sep="\n")
        total += len(wrong)
    return total


def arguments(words):
    """Kind of video, paths, controls, the file to write and the files to read that the command line names."""
    if words == ["--list"]:
        print("paths:", *PATHS)
        print("controls:", *CONTROLS)
        sys.exit(0)
    kind, target = "on demand", None
    if "--from" in words[:1]:
        if len(words) == 1:
            refuse("--from: expected files that --json wrote")
        return kind, [], [], None, [pathlib.Path(word) for word in words[1:]]
    if "--json" in words:
        place = words.index("--json")
        if place + 1 == len(words):
            refuse("--json: expected a file")
        target = pathlib.Path(words[place + 1])
        if target.is_dir() or not target.parent.is_dir():
            refuse(f"--json {target}: expected a file in a directory that exists")
        words = words[:place] + words[place + 2:]
    if "--live" in words:
        kind = "live"
        words.remove("--live")
    if unknown := [word for word in words if word not in PATHS and word not in CONTROLS]:
        refuse(f"{unknown[0]}: expected --live, --json FILE, --from FILE, --list, or some of {', '.join([*PATHS, *CONTROLS])}")
    paths = [name for name in PATHS if name in words] or list(PATHS)
    controls = [name for name in CONTROLS if name in words] or list(CONTROLS)
    return kind, paths, controls, target, []


def check_requirements(has_browser):
    """Ends with status 2 if something is missing."""
    if not os.access(BBRLAB, os.X_OK):
        refuse(f"no command at {BBRLAB}; make checked-full builds it, BBRLAB names another")
    if not has_browser:
        return
    for program in ("ffmpeg", "chromium", "chromedriver"):
        if not shutil.which(program):
            refuse(f"no {program}; {INSTALL}")
    if not (DASHJS / SCRIPT).is_file():
        refuse(f"no dash.js at {DASHJS}; {INSTALL}")
    try:
        output_of([BBRLAB, "emulate", "--", "true"])
    except Fault as fault:
        refuse(str(fault))


def measure(kind, paths, controls):
    """Encodes the stream and plays it; returns the player, the ladder, sessions by path and control, and the number of failures."""
    cells, failed = {}, 0
    with tempfile.TemporaryDirectory(prefix="bbrlab-dash-") as directory:
        root, log = pathlib.Path(directory) / "root", pathlib.Path(directory) / "serve.log"
        root.mkdir()
        shutil.copy(ROOT / "tools/dash/page.html", root)
        ladder = encode(root, KINDS[kind]["segment_s"])
        for path, control in itertools.product(paths, controls):
            try:
                cells[path, control] = [played(PATHS[path], control, kind, root, ladder, log)]
                print(f"{path}, {control}: played", file=sys.stderr, flush=True)
            except (Fault, ValueError) as fault:
                failed += 1
                print(f"dash: {path}, {control}: {fault}", file=sys.stderr, flush=True)
    version = json.loads((DASHJS / "package.json").read_text(encoding="utf-8"))["version"]
    return f"Chromium {output_of(['chromium', '--version']).split()[1]} with dash.js {version}", ladder, cells, failed


def read_sessions(files):
    """Kind of video, player, ladder, and sessions by path and control, of files that --json wrote."""
    kind, player, ladder, cells = None, None, None, {}
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if ladder is not None and (kind, player, ladder) != (content["kind"], content["player"], content["ladder_bps"]):
                refuse(f"--from {file}: another kind of video, player or ladder than in the file before it")
            kind, player, ladder = content["kind"], content["player"], content["ladder_bps"]
            if kind not in KINDS:
                refuse(f"--from {file}: no kind of video {kind}; expected {' or '.join(KINDS)}")
            for one in content["sessions"]:
                if one["path"] not in PATHS or one["control"] not in CONTROLS:
                    refuse(f"--from {file}: no path {one['path']} or no control {one['control']}; --list names them")
                cells.setdefault((one["path"], one["control"]), []).extend(one["chromium"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            refuse(f"--from {file}: expected a file that --json wrote: {error}")
    cells = {cell: cells[cell] for cell in itertools.product(PATHS, CONTROLS) if cell in cells}
    return kind, player, ladder, cells


def main():
    kind, paths, controls, target, files = arguments(sys.argv[1:])
    # Sessions end with us, on this signal too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    check_requirements(not files)
    try:
        if files:
            (kind, player, ladder, cells), failed = read_sessions(files), 0
        else:
            player, ladder, cells, failed = measure(kind, paths, controls)
        models = {(path, control): simulated(PATHS[path], control, kind, ladder) for path, control in cells}
    except Fault as fault:
        sys.exit(f"dash: {fault}")
    if target:
        results = [{"path": path, "control": control, "chromium": cells[path, control], "simulator": models[path, control]}
                   for path, control in cells]
        target.write_text(json.dumps({"kind": kind, "player": player, "ladder_bps": ladder, "sessions": results}, indent=1), encoding="utf-8")
    most = max(map(len, cells.values()), default=0)
    print(f"{player} / simulator, video {kind}: means of up to {most} / {SEEDS} sessions of {SESSION_S} s; bitrates",
          "/".join(f"{bps / 1000:.0f}" for bps in ladder), "kbit/s")
    columns = ["path", "control", "stalls", "stalled, s", "start-up, s", "bitrate, Mbit/s", "switches"] + ["latency, s"] * (kind == "live")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    means = {cell: (mean(cells[cell]), mean(models[cell])) for cell in cells}
    for (path, control), (real, model) in means.items():
        print(row(path, control, real, model))
    disagreeing = compare(means)
    sys.exit(1 if disagreeing or failed else 0)


if __name__ == "__main__":
    main()
