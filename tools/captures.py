#!/usr/bin/env python3
"""`bbrlab path` held to known paths of real stacks: one flow over random paths, its capture or qlog read back, estimate beside truth.
Paths as in crates/study/src/capture/tests.rs: 1 to 200 Mbit/s, 5 to 200 ms, a queue of 0.2 to 4 BDP and at least ten
packets; a quarter each with tail drop alone, random loss, a policer, burst loss.

Usage: captures.py [--on uml|kernel|quic|picoquic|sim] [--paths N] [--seed N] [--jobs N] [--keep DIR]
  --on uml      Linux in virtual time, pcapng of the sender (default); kernel: this host's, in real time, with root; sim: the simulator
  --on quic     `bbrlab serve` and `get` over the link in virtual time, qlog of the server
  --on picoquic picoquic's own simulator, the pico_sim of a build; no policers
  --paths N     number of paths (60)
  --seed N      of the draw (1); rules of `path` were chosen on draws 1 to 3
  --jobs N      runs at a time (2; 1 with kernel)
  --keep DIR    keep all files there
Exit status: 0 if the counts are within the limits, 1 if not or a run failed, 2 for wrong arguments.
env: BBRLAB (target/release/bbrlab), PICO_SIM (build/pico_sim of picoquic)
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/release/bbrlab"))
PICO_SIM = os.environ.get("PICO_SIM", "")

FRAME_BYTES = 1514
# Most that an estimate may differ, and the smallest share of the paths within that. Set before the first run.
WITHIN = {"rate": 0.05, "base": 0.02, "buffer": 0.25}
SHARES = {"rate": 0.95, "base": 0.95, "kind": 0.9, "buffer": 0.95}
# Kinds of loss whose episodes are within this factor may both be called the most frequent.
CLOSE = 1.5
FLOWS = {"uml": ["cubic", "bbr1", "reno"], "kernel": ["cubic", "bbr1", "reno"], "sim": ["cubic", "bbr1", "reno", "bbr3"]}
FLOWS["quic"] = FLOWS["sim"]
FLOWS["picoquic"] = ["newreno", "cubic", "bbr", "bbr1"]
# Bytes of picoquic's full packet and of its ACK, as its simulator serves them: without headers of UDP, IP and Ethernet.
PICOQUIC_BYTES, PICOQUIC_ACK_BYTES, UDP_FRAME_BYTES = 1440, 41, 42
RUN_LIMIT_S = 900


class Fault(Exception):
    """A run that failed."""


def log_uniform(rng, low, high):
    """A number between low and high, even on a logarithmic scale."""
    return low * math.exp(rng.random() * math.log(high / low))


def draw(seed, nth, flows):
    """Path number `nth`: its keys, and what an estimate of it must find."""
    rng = random.Random(f"{seed}.{nth}")
    rate = round(log_uniform(rng, 1e6, 200e6))
    rtt_us = round(1e6 * log_uniform(rng, 5e-3, 0.2))
    bdp = rate / 8 * rtt_us / 1e6
    buffer = round(max(bdp * log_uniform(rng, 0.2, 4), 10 * FRAME_BYTES))
    duration = min(max(60_000 * FRAME_BYTES * 8 / rate, 60 * rtt_us / 1e6, 10), 40)
    keys = {"rate": f"{rate}bit", "rtt": f"{rtt_us}us", "buffer": f"{buffer}B", "seed": nth + 1}
    kind, lost, run, policer = "tail_drop", 0.0, 1.0, None
    if nth % 4 == 1:
        lost = round(log_uniform(rng, 0.1, 2), 3) / 100
        kind, keys["loss"] = "random", f"{100 * lost:.3f}%"
    elif nth % 4 == 2:
        policer = round(rate * log_uniform(rng, 0.3, 0.8))
        burst = max(policer / 8 * log_uniform(rng, 0.02, 0.3), 10 * FRAME_BYTES)
        kind, keys["policer"] = "policer", f"rate={policer}bit,burst={burst:.0f}B"
    elif nth % 4 == 3:
        into, out = round(log_uniform(rng, 0.05, 0.3), 3), round(log_uniform(rng, 20, 40), 1)
        lost, run = into / (into + out), 100 / out
        kind, keys["loss"] = "burst", f"ge:{into}%,{out}%"
    return {
        "nth": nth, "keys": keys, "flow": flows[nth // 4 % len(flows)], "duration": round(duration, 1), "kind": kind, "lost": lost, "run": run,
        "rate": policer or rate, "is_policed": policer is not None, "rtt": rtt_us / 1e3, "buffer": buffer, "bdp": buffer / bdp,
    }  # fmt: skip


def done(command):
    """Runs a command; a failure is a fault with the last line of its errors."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Fault(f"no end after {RUN_LIMIT_S} s: {shlex.join(command)}") from None
    if ended.returncode != 0:
        last = (ended.stderr.strip() or ended.stdout.strip() or "no output").splitlines()[-1]
        raise Fault(f"{shlex.join(command)}: {last}")
    return ended.stdout


def flags_of(path):
    """The path as flags."""
    return [word for key, value in path["keys"].items() for word in (f"--{key}", str(value))]


def of_tcp(path, on, folder):
    """Runs a TCP flow. Returns its capture, and the losses at the queue (or policer) and elsewhere, in episodes of a round trip: the
    queue's are counted, the others are those that the path's loss gives on average.
    """
    result, capture, series = folder / "result.json", folder / "sender.pcapng", folder / "series.csv"
    flow = ["--flow", path["flow"], "--duration", f"{path['duration']}s", "--sample", path["keys"]["rtt"]]
    files = ["--pcap", capture, "--json", result, "--csv", series]
    done([BBRLAB, "run", *flags_of(path), *flow, "--on", on, "--quiet", *map(str, files)])
    packets = json.loads(result.read_text())["packets"]
    episodes, was_lossy, last = 0, False, 0
    with series.open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if row["kind"] == "link" and row["metric"] == "drops":
                is_lossy, last = int(row["value"]) > last, int(row["value"])
                episodes += is_lossy and not was_lossy
                was_lossy = is_lossy
    return capture, episodes, path["lost"] * packets / path["run"]


def of_quic(path, folder):
    """Runs a download over HTTP/3. Returns its qlog, and the losses as `of_tcp` does; those at the queue are all but the expected others."""
    # As many bytes as the path carries in half the time, so that most runs end before the limit.
    size = int(path["rate"] / 8 * path["duration"] / 2)
    own = shlex.quote(BBRLAB)
    serve = f"{own} serve --memory {size}B --quic $BBRLAB_SERVER_IP:4433 --cc {path['flow']} --qlog {shlex.quote(str(folder))}"
    get = f"exec {own} get --insecure --json --output /dev/null https://$BBRLAB_SERVER_IP:4433/bytes/{size}B"
    told = done([BBRLAB, "emulate", "--on", "uml", "--rw", *flags_of(path), "--data", "down", "--server", serve, "--", "sh", "-c", get])
    sender = json.loads(told)["transfers"][0]["sender"]
    elsewhere = path["lost"] * sender["packets"] / path["run"]
    log = next(folder.glob("*.sqlog"))
    return log, max(lost_episodes(log, path["rtt"]) - elsewhere, 0), elsewhere


def of_picoquic(path, folder):
    """Runs a download in picoquic's simulator. Returns the same, and corrects the path: its link serves packets without their headers."""
    if path["is_policed"]:
        path.update(is_policed=False, kind="tail_drop", rate=int(path["keys"]["rate"].removesuffix("bit")))
    lossless = path["lost"] == 0
    between = 0 if lossless else max(round(path["run"] / path["lost"]), 1)
    gbps, latency_us, queue_us = path["rate"] / 1e9, round(500 * path["rtt"]), round(8e6 * path["buffer"] / path["rate"])
    spec = {
        "main_scenario_text": f"=b1:*1:397:{int(path['rate'] / 8 * path['duration'] / 2)};",
        "main_cc_algo": path["flow"], "nb_connections": 1, "main_target_time": 600_000_000, "qlog_dir": str(folder),
        "data_rate_in_gbps": f"{gbps:.7f}", "latency": latency_us, "queue_delay_max": queue_us,
    }  # fmt: skip
    if not lossless:
        link = f"U{gbps:.7f}:D{gbps:.7f}:L{latency_us}:Q{queue_us}:B{round(path['run'])}:P{between}"
        spec["link_scenario"] = f"1000000000:{link}"
    text = folder / "spec.txt"
    text.write_text("".join(f"{key}: {value}\n" for key, value in spec.items()), encoding="utf-8")
    # Its certificates are beside the folder of the build.
    done([PICO_SIM, "-S", str(pathlib.Path(PICO_SIM).resolve().parent.parent), str(text)])
    log = next(folder.glob("*.server.qlog"))
    sent = log.read_text(encoding="utf-8").count('"packet_sent"')
    episodes = lost_episodes(log, path["rtt"])
    elsewhere = 0 if lossless else min(sent / (between + path["run"]), episodes)
    path["rtt"] += 8e3 * PICOQUIC_ACK_BYTES / path["rate"]
    frames = 1 + UDP_FRAME_BYTES / PICOQUIC_BYTES
    path["rate"], path["buffer"] = path["rate"] * frames, path["buffer"] * frames
    return log, episodes - elsewhere, elsewhere


def lost_episodes(log, rtt_ms):
    """Losses of a qlog that are more than a round trip after the one before."""
    episodes, last_ms = 0, -math.inf
    for line in log.read_text(encoding="utf-8").splitlines():
        if 'packet_lost"' in line:
            # picoquic's events are arrays that begin with the time in µs.
            now_ms = float(line[1:].split(",")[0]) / 1e3 if line.startswith("[") else json.loads(line.lstrip("\x1e"))["time"]
            episodes += now_ms - last_ms > rtt_ms
            last_ms = now_ms
    return episodes


def compare(path, capture, drops, elsewhere):
    """One path's estimate beside the truth: what is within its limit, and a line."""
    found = json.loads(done([BBRLAB, "path", str(capture), "--json", "-"]))["files"][0]["capture"]["paths"][0]
    at_queue = "policer" if path["is_policed"] else "tail_drop"
    kinds = sorted([(drops, at_queue), (elsewhere, path["kind"])], reverse=True)
    expected = {kinds[0][1]} if kinds[0][0] else {None}
    if kinds[0][0] < CLOSE * kinds[1][0]:
        expected.add(kinds[1][1])
    losses = sorted(found["losses"], key=lambda one: -one["episodes"])
    kind = losses[0]["kind"] if losses else None
    rate = found["policer"] if path["is_policed"] else found["rate"]
    off = {
        "rate": rate["bps"] / path["rate"] - 1 if rate else math.nan,
        "base": found["rtt"]["base_ms"] / path["rtt"] - 1 if found["rtt"] else math.nan,
    }
    is_bound = not path["is_policed"] and bool(rate) and rate["is_lower_bound"] and off["rate"] < -WITHIN["rate"]
    if expected == {"tail_drop"}:
        size = found["buffer"]
        off["buffer"] = size["bytes"] / path["buffer"] - 1 if size and not size["is_lower_bound"] else math.nan
    within = {name: abs(value) <= WITHIN[name] for name, value in off.items()}
    within["rate"] |= is_bound
    within["kind"] = kind in expected
    shown = ", ".join(f"{name} {100 * value:+.1f} %{' (a lower bound)' if name == 'rate' and is_bound else ''}" for name, value in off.items())
    wrong = "".join(f" WRONG {name}" for name, is_within in within.items() if not is_within)
    wanted = " or ".join(sorted(str(one) for one in expected))
    line = (
        f"{path['nth']:2} {path['flow']:5} {path['rate'] / 1e6:6.2f} Mbit/s {path['rtt']:5.1f} ms {path['bdp']:5.2f} bdp: {shown}; "
        f"{drops:.0f} + {elsewhere:.0f} episodes: {wanted}, found {kind}{wrong}"
    )
    return within, line


def one(path, on, folder):
    """Runs a path and compares."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {"quic": of_quic, "picoquic": of_picoquic}
    run = runs[on](path, folder) if on in runs else of_tcp(path, on, folder)
    return compare(path, *run)


class Parser(argparse.ArgumentParser):
    """Refuses wrong arguments in one line."""

    def error(self, message):
        self.exit(2, f"captures: {message}\n")


def main():
    parser = Parser(usage=__doc__)
    parser.add_argument("--on", choices=sorted(FLOWS), default="uml")
    parser.add_argument("--paths", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    if args.paths < 1 or args.jobs < 1:
        parser.error("--paths, --jobs: write at least 1")
    if not os.access(BBRLAB, os.X_OK):
        parser.error(f"{BBRLAB}: no such command; make build writes it, or set BBRLAB")
    if args.on == "picoquic" and not os.access(PICO_SIM, os.X_OK):
        parser.error("PICO_SIM: name the pico_sim of a build of picoquic")
    with tempfile.TemporaryDirectory() as scratch:
        base = (args.keep or pathlib.Path(scratch)).absolute()
        paths = [draw(args.seed, nth, FLOWS[args.on]) for nth in range(args.paths)]
        counts, failed = {}, 0
        with concurrent.futures.ThreadPoolExecutor(1 if args.on == "kernel" else args.jobs) as pool:
            runs = [pool.submit(one, path, args.on, base / str(path["nth"])) for path in paths]
            for path, run in zip(paths, runs):
                try:
                    within, line = run.result()
                except Fault as fault:
                    failed += 1
                    print(f"{path['nth']:2} {fault}", flush=True)
                    continue
                print(line, flush=True)
                for name, is_within in within.items():
                    count = counts.setdefault(name, [0, 0])
                    count[0] += is_within
                    count[1] += 1
    print()
    status = 1 if failed else 0
    for name, (good, all_of) in counts.items():
        holds = good >= SHARES[name] * all_of
        limit = f" within {100 * WITHIN[name]:.0f} %" if name in WITHIN else " right"
        print(f"{'holds' if holds else 'FAILS'}  {good} of {all_of} {name}{limit}, asked {100 * SHARES[name]:.0f} %")
        status = status if holds else 1
    if failed:
        print(f"{failed} runs failed")
    return status


sys.exit(main())
