#!/bin/bash
# LOOPBACK: curl fetches 500 MiB over lo from a web server, with loss of data and ACKs; prints a table in Markdown.
# usage: tools/loopback.sh uml|host [REPEATS (5)]     uml: needs a kernel of `make uml`; host: needs root
# env: BBRLAB the command (target/release/bbrlab)
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
backend=${1:-}
repeats=${2:-5}
bbrlab=${BBRLAB:-target/release/bbrlab}
case $backend in uml | host) ;; *) echo "loopback: write uml or host" >&2; exit 2 ;; esac
case $repeats in '' | *[!0-9]* | 0) echo "loopback: $repeats: write a number of repeats" >&2; exit 2 ;; esac
# Bypasses a version manager's shim, which would only add time.
PYTHON=$(python3 -c 'import sys; print(sys.executable)')
export PYTHON REPEATS=$repeats

# The standard library's server. Only the sender is under test, so the congestion control is set on its socket, which
# root may do even if a namespace may not have it as its default.
export SERVER='
import http.server, socket, sys
class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
        super().server_bind()
Server(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler).serve_forever()'

# Runs inside: a file in memory in the directory $1, a server with congestion control $2, and REPEATS transfers.
serve_and_fetch='
    set -eu
    cd "$1"
    [ -e file ] || head -c 524288000 /dev/zero >file
    "$PYTHON" -c "$SERVER" "$2" >/dev/null 2>&1 &
    server=$!
    trap "kill $server" EXIT
    for _ in $(seq 100); do curl -sI -o /dev/null http://127.0.0.1:8000/ && break; sleep .1; done
    for _ in $(seq "$REPEATS"); do
        # The rate of the whole transfer: bytes divided by elapsed time.
        curl -sS -o /dev/null --max-time 900 -w "%{speed_download}\n" http://127.0.0.1:8000/file
    done'
in_uml() { # loss cc
    local with=""
    [ "$1" = 0 ] || with="tc qdisc add dev lo root netem limit 100000 loss $1%; "
    "$bbrlab" emulate --on uml --real-time -- sh -c "$with$serve_and_fetch" sh /tmp "$2"
}
on_host() { # loss cc
    python3 tools/loopback_loss.py "$1" sh -c "$serve_and_fetch" sh "$memory" "$2"
}
if [ "$backend" = host ]; then
    memory=$(mktemp -d /dev/shm/bbrlab-loopback.XXXXXX)
    trap 'rm -rf "$memory"' EXIT
    trap 'exit 130' INT TERM
    run=on_host
else
    run=in_uml
fi

echo "| backend | loss | CUBIC MB/s: median (of all) | BBR MB/s: median (of all) | BBR/CUBIC | claimed | verdict |"
echo "|---|---|---|---|---|---|---|"
for loss in 0 1 10; do
    { $run $loss cubic | sed 's/^/cubic /'; $run $loss bbr | sed 's/^/bbr /'; } |
        BACKEND=$backend LOSS=$loss "$PYTHON" -c '
import os, statistics, sys
rates = {"cubic": [], "bbr": []}
for line in sys.stdin:
    cc, rate = line.split()
    rates[cc].append(float(rate) / 1e6)
loss = os.environ["LOSS"]
low, high, said = {"0": (.9, 1.1, "0.9–1.1"), "1": (1, 1e9, "≥ 1"), "10": (2, 1e9, "≥ 2")}[loss]
show = lambda rate: f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}"
middle = {cc: statistics.median(all) for cc, all in rates.items()}
cells = [f"{show(middle[cc])} ({chr(32).join(show(rate) for rate in sorted(all))})" for cc, all in rates.items()]
ratio = middle["bbr"] / middle["cubic"]
verdict = "holds" if low <= ratio <= high else "falls short"
print("|", " | ".join([os.environ["BACKEND"], f"{loss} %", *cells, f"{ratio:.2f}", said, verdict]), "|", flush=True)'
done
