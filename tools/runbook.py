#!/usr/bin/env python3
"""Runs every command of docs/roll-out.md in its order, on a host of its own: runbook.py

The host has a /etc, /run, /usr/local/bin and /var/lib of its own, and a web server on port 443 with clients behind an emulated link. Only
these words of a command are changed: `5m` of watching becomes `5s`, and `sudo` is left out. `ab start` lasts, as the guide says, until
`ab stop`. Each command must succeed, and say what the guide promises; nothing may be left at the end. As root; $BBRLAB is the command.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
DOCUMENT = HERE.parents[1] / "docs/roll-out.md"
# Bytes of a download: some seconds on the link, so that the guide's first look finds it.
SIZE = 6_000_000
# Regular expressions that the output of a command must match, by the command's first words.
PROMISES = {
    "bbrlab advise --from live": r"^(Use|No clear winner|No advice|Don't change)",
    "bbrlab watch --once": r"^ +443 ",
    "bbrlab doctor": r"^yes +load",
    "bbrlab host status": r"bbr3_linux",
    "bbrlab host load": r"bbr3_linux",
    "bbrlab ab split": r"cubic 50 %, bbr3-linux 50 %",
    "bbrlab ab report": r"bbr3-linux",
    "bbrlab host enable bbr3-linux --dry-run": r"bbrlab-bbr3_linux\.service",
    "bbrlab host policy apply": r"in force",
}
SERVER = """
import http.server, os, sys
os.chdir(sys.argv[1])
class Quiet(http.server.SimpleHTTPRequestHandler):
    log_message = lambda *_: None
http.server.ThreadingHTTPServer(("", 443), Quiet).serve_forever()
"""
CLIENT = """
import http.client, os, time, threading
address = os.environ["BBRLAB_SERVER_IP"]
def fetch():
    while not os.path.exists(os.environ["BBRLAB_RUNBOOK_END"]):
        try:
            one = http.client.HTTPConnection(address, 443, timeout=20)
            one.request("GET", "/file")
            assert len(one.getresponse().read()) == int(os.environ["BBRLAB_RUNBOOK_SIZE"])
            one.close()
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
threads = [threading.Thread(target=fetch) for _ in range(3)]
[one.start() for one in threads]
[one.join() for one in threads]
"""


def commands(text):
    """The lines of the guide's shell blocks, with the heading before each."""
    heading = ""
    inside = False
    for line in text.splitlines():
        if line.startswith("#") and not inside:
            heading = line.strip("# ")
        elif line.startswith("```"):
            inside = line.strip() == "```sh"
        elif inside and (words := re.sub(r"\s+#.*", "", line).strip()):
            yield heading, words.removeprefix("sudo ")


def run(heading, line, root):
    """Runs one command. Returns the process of one that lasts."""
    line = re.sub(r"--watch 5m\b", "--watch 5s", line)
    # The queueing discipline of new devices belongs to the machine, and is not to be seen in a network namespace.
    if not pathlib.Path("/proc/sys/net/core/default_qdisc").exists():
        line = line.replace(" net.core.default_qdisc", "")
    print(f"== {heading}\n$ {line}", flush=True)
    if " ab start " in line:
        # Its promises: connections are assigned from now on, and a first split is there to be changed.
        with (root / "said").open("wb") as said:
            lasting = subprocess.Popen(line.split(), stdout=said, stderr=subprocess.STDOUT)
        end = time.monotonic() + 30
        while b"records in" not in (root / "said").read_bytes():
            assert lasting.poll() is None and time.monotonic() < end, (root / "said").read_text(encoding="utf-8")
            time.sleep(0.1)
        # A day passes.
        time.sleep(8)
        return lasting
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr, flush=True)
    assert done.returncode == 0, f"{line}: exit status {done.returncode}"
    for words, promise in PROMISES.items():
        if line.startswith(words) and ("--dry-run" in line) == ("--dry-run" in words):
            assert re.search(promise, done.stdout, re.MULTILINE), f"{line}: it does not say {promise}"
    if "ab split" in line:
        time.sleep(8)
    return None


def guide(root):
    """The guide, beside a server whose clients are behind the link."""
    os.environ["PATH"] = f"/usr/local/bin:{os.environ['PATH']}"
    os.chdir(root)
    (root / "www").mkdir()
    (root / "www/file").write_bytes(os.urandom(SIZE))
    (root / "policy.toml").write_text('[[rule]]\nname = "mobile"\nports = [443]\nalgorithm = "bbr3-linux"\nholdout = "2%"\n', encoding="utf-8")
    server = subprocess.Popen([sys.executable, "-c", SERVER, root / "www"])
    lasting, ran = None, 0
    try:
        time.sleep(3)
        for heading, line in commands(DOCUMENT.read_text(encoding="utf-8")):
            if "--drain" in line:
                # "If it was loaded but not enabled."
                run(heading, "bbrlab host load bbr3-linux", root)
            lasting = run(heading, line, root) or lasting
            if line.startswith("bbrlab ab stop"):
                assert lasting.wait(30) == 0, (root / "said").read_text(encoding="utf-8")
                lasting = None
            ran += 1
        status = subprocess.run(["bbrlab", "host", "status"], capture_output=True, text=True, check=True).stdout
        assert "nothing of bbrlab's" in status, status
    finally:
        (root / "end").touch()
        if lasting:
            lasting.kill()
        server.kill()
    (root / "ran").write_text(str(ran), encoding="ascii")


def main():
    if sys.argv[1:2] == ["guide"]:
        return guide(pathlib.Path(sys.argv[2]))
    if sys.argv[1:2] != ["inside"]:
        return subprocess.run(["unshare", "-m", "--propagation", "private", sys.executable, HERE, "inside", *sys.argv[1:]], check=False).returncode
    program = os.path.realpath(os.environ.get("BBRLAB", "target/release/bbrlab"))
    root = pathlib.Path(tempfile.mkdtemp())
    for place in ["/run", "/usr/local/bin", "/var/lib"]:
        pathlib.Path(place).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", place], check=True)
    shutil.copytree("/etc", root / "etc", symlinks=True)
    subprocess.run(["mount", "--bind", root / "etc", "/etc"], check=True)
    shutil.copy(program, "/usr/local/bin/bbrlab")
    default = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii")
    os.environ.update(BBRLAB_RUNBOOK_END=str(root / "end"), BBRLAB_RUNBOOK_SIZE=str(SIZE))
    try:
        link = ["emulate", "--rate", "50mbit", "--rtt", "40ms", "--loss", "0.2%"]
        done = subprocess.run([program, *link, "--server", f"{sys.executable} {HERE} guide {root}", "--", sys.executable, "-c", CLIENT], check=False)
        ran = int((root / "ran").read_text(encoding="ascii")) if (root / "ran").exists() else 0
        after = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii")
        changed = subprocess.run(["find", "/etc", "-newer", root / "www", "-type", "f"], capture_output=True, text=True, check=True).stdout
        print(f"runbook: {ran} commands, in their order" + ("" if ran else ", failed"))
        assert default == after, f"left in the kernel: {after}"
        assert "bbrlab" not in changed, f"left in /etc: {changed}"
        return 0 if ran and done.returncode == 0 else 1
    finally:
        subprocess.run(["umount", "/etc"], check=False)
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main())
