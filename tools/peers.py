#!/usr/bin/env python3
"""HTTP/3 between bbrlab and other stacks, over loopback: each client fetches from `bbrlab serve`, `bbrlab get` from each server.
Files of 0 B, 1 kB and 10 MB must arrive with the right SHA-256, over HTTP/3 by both ends' own account, a client's on one connection.

Usage: peers.py [--broken] [PEER…]
  --broken  one bit of each file that is served is wrong: every peer must fail
  PEER      chromium, curl (libcurl with ngtcp2, from the Python package curl_cffi), curl-command, aioquic, get-caddy, get-aioquic
A peer that is missing is skipped by name; with CI=true that is a failure. Last line: "N passed, N failed[, N skipped]".
env: BBRLAB (target/release/bbrlab); PEERS_PYTHON (out/peers/bin/python), a Python with tools/peers/requirements.txt; CURL (curl) with
HTTP/3; CADDY (caddy, or out/tools/caddy). tools/setup.sh peers installs what is missing.
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/report"))
from webdriver import CHROMIUM_NAMES, FLAGS, Browser  # noqa: E402

BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/release/bbrlab"))
PYTHON = os.environ.get("PEERS_PYTHON", str(ROOT / "out/peers/bin/python"))
CURL = os.environ.get("CURL", "curl")
CADDY = os.environ.get("CADDY") or shutil.which("caddy") or str(ROOT / "out/tools/caddy")
SIZES = {"/empty": 0, "/1kB": 1_000, "/10MB": 10_000_000}
# Each file twice, so that a second request of its size uses a connection that has carried others.
PATHS = [*SIZES, *SIZES]
# New connections per file, two at a time, that `bbrlab get` opens to a server beside the one that is compared.
REPEATS = 3
INSTALL = "tools/setup.sh peers installs it"
START_LIMIT_S = 30
PEER_LIMIT_S = 180
STOP_LIMIT_S = 10
PAGE = "<!doctype html><title>bbrlab</title><body></body>"
FETCH = """
window.seen = null;
(async () => {
  const get = async (path) => {
    const answer = await fetch(path, { cache: 'no-store' });
    const body = await answer.arrayBuffer();
    const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', body));
    const sha256 = [...sum].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    return { path, status: answer.status, bytes: body.byteLength, sha256 };
  };
  const responses = [];
  for (const path of arguments[0]) responses.push(await get(path));
  responses.push(...await Promise.all(arguments[0].map(get)));
  for (const response of responses) {
    const timing = performance.getEntriesByType('resource').find((one) => one.name.endsWith(response.path));
    response.protocol = timing.nextHopProtocol;
  }
  window.seen = { responses, page: performance.getEntriesByType('navigation')[0].nextHopProtocol };
})().catch((error) => { window.seen = { error: String(error) }; });
"""


class Missing(Exception):
    """A peer that this machine does not have."""


class Fault(Exception):
    """A check that failed."""


class Bench:
    """Directory of one run: certificate, served files, and the sums that they should have."""

    def __init__(self, directory, is_broken):
        self.directory = pathlib.Path(directory)
        self.cert, self.key, self.root = self.directory / "cert.pem", self.directory / "key.pem", self.directory / "root"
        self.root.mkdir()
        self.sums = {}
        for path, size in SIZES.items():
            content = os.urandom(size)
            self.sums[path] = hashlib.sha256(content).hexdigest()
            if is_broken and size > 0:
                content = content[:-1] + bytes([content[-1] ^ 1])
            (self.root / path[1:]).write_bytes(content)
        (self.root / "index.html").write_text(PAGE, encoding="utf-8")
        output_of(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "10",
                   "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                   "-keyout", str(self.key), "-out", str(self.cert)])

    def check(self, responses, expected):
        """Checks status, length, sum and protocol of responses, as an HTTP/3 client reports them."""
        if len(responses) != expected:
            raise Fault(f"{len(responses)} responses, expected {expected}")
        for one in responses:
            path = one["path"]
            found = (one["status"], one["bytes"], one["sha256"], one["protocol"])
            wanted = (200, SIZES[path], self.sums[path], "h3")
            for name, is_value, should in zip(("status", "length", "SHA-256", "protocol"), found, wanted):
                if is_value != should:
                    raise Fault(f"{path}: {name} {is_value}, expected {should}")


def output_of(command, **options):
    """Standard output of a command that ends by itself; a failure is a fault with the last line of its errors."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PEER_LIMIT_S, check=False, **options)
    except subprocess.TimeoutExpired as error:
        raise Fault(f"{command[0]} has not ended within {PEER_LIMIT_S} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Fault(f"{pathlib.Path(command[0]).name} ended with status {done.returncode}: {last}")
    return done.stdout


@contextlib.contextmanager
def running(command, log, **options):
    """Runs a server that writes to a file; ends it afterwards."""
    with open(log, "w", encoding="utf-8") as file:
        server = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(server, log, pattern):
    """The groups of a pattern, once the server's output has it."""
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        text = log.read_text(encoding="utf-8")
        if found := re.search(pattern, text, re.M):
            return found.groups()
        if server.poll() is not None:
            raise Fault(f"the server ended with status {server.returncode}: {text.strip()[-200:]}")
        time.sleep(0.05)
    raise Fault(f"the server has not started within {START_LIMIT_S} s: {text.strip()[-200:]}")


def served(log, paths):
    """Checks a server's own log: each response over HTTP/3. Returns the number of connections."""
    lines = re.findall(r"^(\S+:\d+) (\S+) GET (\S+) (\d+)$", log.read_text(encoding="utf-8"), re.M)
    files = [line for line in lines if line[2] in SIZES]
    if sorted(path for _, _, path, _ in files) != sorted(paths):
        raise Fault(f"the server's log has {len(files)} of {len(paths)} responses")
    for address, protocol, path, status in files:
        if (protocol, status) != ("h3", "200"):
            raise Fault(f"{path}: the server's log has {protocol} and status {status}, expected h3 and 200")
    return len({line[0] for line in files})


def fetched_by(bench, client, paths, name="localhost"):
    """Starts `bbrlab serve`, has a client fetch, and compares both ends. The server has no port on TCP to fall back to."""
    log = bench.directory / "serve.log"
    serve = [BBRLAB, "serve", "--quic", "0", "--root", bench.root, "--cert", bench.cert, "--key", bench.key, "--log"]
    begin = time.monotonic()
    with running(serve, log) as server:
        port, spki = wait_for(server, log, r"^https://127\.0\.0\.1:(\d+)/ .*--spki (\S+)$")
        responses = client(f"https://{name}:{port}/", spki)
    bench.check(responses, len(paths))
    connections = served(log, paths)
    if connections != 1:
        raise Fault(f"{connections} connections, expected 1")
    total = sum(one["bytes"] for one in responses) / 1e6
    return f"{len(responses)} responses, {total:.0f} MB, over h3 on one connection in {time.monotonic() - begin:.1f} s"


def lines_of(command):
    """A client program's responses: an object per line."""
    return [json.loads(line) for line in output_of(command).splitlines()]


def python_peer(script, module):
    """The command of a program of tools/peers, and the version of the module that it needs."""
    if not os.access(PYTHON, os.X_OK):
        raise Missing(f"no {PYTHON}; {INSTALL}")
    try:
        version = output_of([PYTHON, "-c", f"import {module}; print({module}.__version__)"]).strip()
    except Fault as error:
        raise Missing(f"{error}; {INSTALL}") from error
    return [PYTHON, ROOT / "tools/peers" / script], version


def chromium(bench):
    """Headless Chromium, with QUIC forced for the server's origin and no other host to be found."""
    binary = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
    if not binary or not shutil.which("chromedriver"):
        raise Missing(f"no chromium or no chromedriver; {INSTALL}")

    def client(base, spki):
        flags = [flag for flag in FLAGS if flag != "--disable-quic"]
        origin = base.split("/")[2]
        flags += ["--host-resolver-rules=MAP localhost 127.0.0.1, MAP * ~NOTFOUND", f"--origin-to-force-quic-on={origin}",
                  f"--ignore-certificate-errors-spki-list={spki}"]
        with Browser(flags) as browser:
            browser.open(base, 800, 600, False)
            browser.run(FETCH, PATHS)
            if not browser.wait_for("return window.seen !== null", PEER_LIMIT_S):
                raise Fault(f"the page has not fetched all within {PEER_LIMIT_S} s")
            seen = browser.run("return window.seen")
        if seen.get("page") != "h3":
            raise Fault(f"the page did not come over h3: {seen}")
        return seen["responses"]

    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout.split()[1:2]
    return f"Chromium {' '.join(version)}", fetched_by(bench, client, PATHS * 2)


def curl(bench):
    """libcurl with ngtcp2."""
    command, _ = python_peer("curl_get.py", "curl_cffi")
    libraries = output_of([PYTHON, "-c", "import curl_cffi; print(curl_cffi.Curl().version().decode())"]).split()
    names = [one for one in libraries if re.match("libcurl|ngtcp2", one)]
    return " ".join(names), fetched_by(bench, lambda base, _: lines_of([*command, base, bench.cert, *PATHS]), PATHS)


def curl_command(bench):
    """The command, if it was built with HTTP/3."""
    if not shutil.which(CURL):
        raise Missing(f"no {CURL}; {INSTALL}")
    about = output_of([CURL, "--version"])
    name, libraries = about.split()[1], re.findall(r"\b(?:ngtcp2|quiche|nghttp3|OpenSSL)/\S+", about)
    if not re.search(r"^Features:.* HTTP3\b", about, re.M):
        raise Missing(f"curl {name} has no HTTP/3; Debian's has it from version 13 on")

    def client(base, _):
        command = [CURL, "--silent", "--show-error", "--http3-only", "--cacert", bench.cert, "--max-time", PEER_LIMIT_S]
        command += ["--write-out", "%{url} %{http_code} %{http_version}\\n"]
        files = [bench.directory / f"curl-{number}" for number in range(len(PATHS))]
        for path, file in zip(PATHS, files):
            command += ["--output", file, base.rstrip("/") + path]
        responses = []
        for line, path, file in zip(output_of(command).splitlines(), PATHS, files):
            _, status, version = line.split()
            content = file.read_bytes() if file.exists() else b""
            responses.append({"path": path, "status": int(status), "bytes": len(content),
                              "sha256": hashlib.sha256(content).hexdigest(), "protocol": f"h{version}"})
        return responses

    return f"curl {name} with {' '.join(libraries)}", fetched_by(bench, client, PATHS)


def aioquic(bench):
    """aioquic's client: requests one after the other, then all at once."""
    command, version = python_peer("aioquic_get.py", "aioquic")
    result = fetched_by(bench, lambda base, _: lines_of([*command, base, bench.cert, *PATHS]), PATHS * 2, "127.0.0.1")
    return f"aioquic {version}", result


def fetch_from(bench, base):
    """`bbrlab get` fetches each file once to compare it, and then several times, two at a time. Returns what it fetched."""
    begin, total = time.monotonic(), 0
    for path in SIZES:
        file = bench.directory / f"get{path.replace('/', '-')}"
        report = json.loads(output_of([BBRLAB, "get", "--ca", bench.cert, "--json", "--output", file, base + path[1:]]))["transfers"][0]
        content = file.read_bytes()
        bench.check([{"path": path, "status": 200, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(),
                      "protocol": report["protocol"]}], 1)
        total += len(content)
    urls = [base + path[1:] for path in SIZES]
    again = json.loads(output_of([BBRLAB, "get", "--ca", bench.cert, "--json", "--repeat", REPEATS, "-P", "2", *urls]))["transfers"]
    seen = sorted((one["bytes"], one["protocol"]) for one in again)
    if seen != sorted((size, "h3") for size in SIZES.values() for _ in range(REPEATS)):
        raise Fault(f"repeated downloads: {seen}")
    total += sum(one["bytes"] for one in again)
    count = len(SIZES) + len(again)
    return count, f"{count} responses, {total / 1e6:.0f} MB, over h3 on {count} connections in {time.monotonic() - begin:.1f} s"


def get_aioquic(bench):
    """`bbrlab get` from aioquic's server."""
    command, version = python_peer("aioquic_serve.py", "aioquic")
    log = bench.directory / "aioquic.log"
    with running([*command, bench.root, bench.cert, bench.key], log) as server:
        (base,) = wait_for(server, log, r"^(https://127\.0\.0\.1:\d+/)$")
        count, result = fetch_from(bench, base)
    if served(log, [path for path in SIZES for _ in range(REPEATS + 1)]) != count:
        raise Fault(f"the server's log has another number of connections than {count}")
    return f"aioquic {version}", result


def get_caddy(bench):
    """`bbrlab get` from caddy, whose QUIC is quic-go."""
    if not shutil.which(CADDY):
        raise Missing(f"no {CADDY}; {INSTALL}")
    port = free_port()
    log, access = bench.directory / "caddy.log", bench.directory / "access.log"
    tls = {"certificates": {"load_files": [{"certificate": str(bench.cert), "key": str(bench.key)}]}}
    server = {
        "listen": [f"127.0.0.1:{port}"], "protocols": ["h1", "h2", "h3"], "automatic_https": {"disable": True},
        "tls_connection_policies": [{}], "logs": {},
        "routes": [{"handle": [{"handler": "file_server", "root": str(bench.root)}]}],
    }
    logs = {"default": {"exclude": ["http.log.access"]},
            "access": {"include": ["http.log.access"], "writer": {"output": "file", "filename": str(access)}}}
    config = {"admin": {"disabled": True}, "logging": {"logs": logs}, "apps": {"tls": tls, "http": {"servers": {"files": server}}}}
    (bench.directory / "caddy.json").write_text(json.dumps(config), encoding="utf-8")
    own = {**os.environ, "HOME": str(bench.directory), "XDG_DATA_HOME": str(bench.directory), "XDG_CONFIG_HOME": str(bench.directory)}
    with running([CADDY, "run", "--config", bench.directory / "caddy.json"], log, env=own) as process:
        wait_for(process, log, r"(serving initial configuration)")
        count, result = fetch_from(bench, f"https://127.0.0.1:{port}/")
    lines = [json.loads(line) for line in access.read_text(encoding="utf-8").splitlines()]
    protocols = [line["request"]["proto"] for line in lines]
    if protocols != ["HTTP/3.0"] * count:
        raise Fault(f"the server's log has {protocols}, expected HTTP/3.0 {count} times")
    version = output_of([CADDY, "version"]).split()[0]
    return f"caddy {version.lstrip('v')}", result


def free_port():
    """A port of loopback that is free for TCP and UDP now."""
    for _ in range(100):
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            stream.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                datagrams.bind(stream.getsockname())
                return stream.getsockname()[1]
    raise Fault("no port is free for both TCP and UDP")


PEERS = {"chromium": chromium, "curl": curl, "curl-command": curl_command, "aioquic": aioquic, "get-caddy": get_caddy,
         "get-aioquic": get_aioquic}


def main():
    words = sys.argv[1:]
    is_broken = "--broken" in words
    names = [word for word in words if word != "--broken"] or list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        sys.exit(f"peers: {unknown[0]}: expected --broken or one of {', '.join(PEERS)}")
    if not os.access(BBRLAB, os.X_OK):
        sys.exit(f"peers: no command at {BBRLAB}; make checked-full builds it")
    # Servers end with their blocks, on this signal too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    is_ci = os.environ.get("CI") == "true"
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="bbrlab-peers-") as directory:
            try:
                version, result = PEERS[name](Bench(directory, is_broken))
                outcome, text = "passed", f"{version}: {result}"
            except Missing as error:
                outcome, text = ("failed" if is_ci else "skipped"), str(error)
            except (Fault, OSError, RuntimeError, ValueError, KeyError) as error:
                outcome, text = "failed", str(error)
        counts[outcome] += 1
        print(f"{name}: {outcome}, {text}", flush=True)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
