#!/usr/bin/env python3
"""Checks contrib/grafana-dashboard.json: its form, and each query against a Prometheus that scrapes `bbrlab watch`.
Use: `grafana.py [--form]`; --form checks the form only. Some connections over loopback give the exporter something to measure.
Everything listens on loopback, on free ports, and ends with this program. Prints one line per fault; exit 1 if there is one.
env: BBRLAB (target/release/bbrlab), PROMETHEUS (prometheus, or out/tools/prometheus, where tools/setup.sh unpacks it).
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DASHBOARD = "contrib/grafana-dashboard.json"
DATASOURCE = "${datasource}"
# What Grafana would put into a query.
VARIABLES = {"$__rate_interval": "8s", "$cc": ".*", "$port": ".*"}
# A scrape a second; a rate needs two, a histogram of rates some more.
DEADLINE_S = 60
# Grafana divides a row into 24 columns.
COLUMNS = 24


def form_faults(board):
    """What Grafana would refuse, or draw wrongly."""
    for key, kind in {"title": str, "uid": str, "schemaVersion": int, "panels": list, "templating": dict, "time": dict}.items():
        if not isinstance(board.get(key), kind) or not board[key]:
            yield f"no {key} of type {kind.__name__}"
            return
    variables = {variable.get("name"): variable for variable in board["templating"].get("list", [])}
    if variables.get("datasource", {}).get("type") != "datasource" or variables["datasource"].get("query") != "prometheus":
        yield "no variable `datasource` that chooses a Prometheus"
    for name, variable in variables.items():
        if variable.get("type") == "query" and variable.get("datasource", {}).get("uid") != DATASOURCE:
            yield f"variable {name}: its data source is not {DATASOURCE}"
    cells, ids = {}, set()
    for panel in board["panels"]:
        what = f"panel {panel.get('title', panel.get('id'))!r}"
        if panel.get("id") in ids or not isinstance(panel.get("id"), int):
            yield f"{what}: its id {panel.get('id')!r} is not a number of its own"
        ids.add(panel.get("id"))
        for key in ("type", "title", "description", "gridPos", "targets"):
            if not panel.get(key):
                yield f"{what}: no {key}"
        place = panel.get("gridPos", {})
        if place.get("x", 0) + place.get("w", 0) > COLUMNS:
            yield f"{what}: it ends beyond column {COLUMNS}"
        for x in range(place.get("x", 0), place.get("x", 0) + place.get("w", 0)):
            for y in range(place.get("y", 0), place.get("y", 0) + place.get("h", 0)):
                if cells.setdefault((x, y), what) != what:
                    yield f"{what}: it covers {cells[x, y]}"
                    break
        references = [target.get("refId") for target in panel.get("targets", [])]
        if len(set(references)) < len(references) or None in references:
            yield f"{what}: refIds {references}, expected one of its own for each query"
        for target in [panel, *panel.get("targets", [])]:
            if target.get("datasource", {}).get("uid") != DATASOURCE:
                yield f"{what}: a data source is not {DATASOURCE}"


def queries(board):
    """(Panel, expression with the variables replaced) of each query."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield panel["title"], expression


def free_port():
    """A port of loopback that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Traffic:
    """Connections over loopback that send 2 MB a second each, until closed or for DEADLINE_S."""

    def __init__(self):
        self.ended = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.receive, daemon=True).start()
        for name in ("cubic", "reno"):
            threading.Thread(target=self.send, args=(name,), daemon=True).start()

    def receive(self):
        """Accepts the connections, and reads all that arrives."""
        for _ in range(2):
            connection = self.listener.accept()[0]
            threading.Thread(target=self.discard, args=(connection,), daemon=True).start()

    @staticmethod
    def discard(connection):
        """Reads a connection to its end."""
        while connection.recv(1 << 16):
            pass

    def send(self, name):
        """Sends with a congestion control, or with the default if the kernel refuses it."""
        with socket.socket() as sender:
            try:
                sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError:
                pass
            sender.connect(self.listener.getsockname())
            end = time.monotonic() + DEADLINE_S
            while time.monotonic() < end and not self.ended.wait(0.05):
                sender.sendall(bytes(100_000))


def ask(port, path, **parameters):
    """`data` of an answer of Prometheus; an error's text, if it refuses."""
    url = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"], None
    except urllib.error.HTTPError as error:
        return None, json.load(error).get("error", str(error))
    except OSError:
        return None, None  # it has not started yet


def has_value(data):
    """True if some series of a vector is a finite number."""
    return bool(data) and any(math.isfinite(float(series["value"][1])) for series in data["result"])


def answer_faults(board, port, exporter):
    """Queries that are refused, or that have no value before the deadline."""
    open_queries, end = list(queries(board)), time.monotonic() + DEADLINE_S
    while open_queries and time.monotonic() < end:
        if exporter.poll() is not None:
            yield f"the exporter ended with status {exporter.returncode}"
            return
        time.sleep(1)
        left = []
        for title, expression in open_queries:
            data, error = ask(port, "query", query=expression)
            if error:
                yield f"panel {title!r}: {error}"
            elif not has_value(data):
                left.append((title, expression))
        open_queries = left
    for title, expression in open_queries:
        yield f"panel {title!r}: no value within {DEADLINE_S} s of {expression}"
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["query"].removeprefix("label_values(").removesuffix(")").split(", ")
            values, error = ask(port, f"label/{label}/values", **{"match[]": metric})
            if not values:
                yield f"variable {variable['name']}: {error or 'no value'}"


def run_faults(board):
    """Starts exporter, traffic and Prometheus, and asks."""
    bbrlab = os.environ.get("BBRLAB", os.path.join(ROOT, "target/release/bbrlab"))
    prometheus = shutil.which(os.environ.get("PROMETHEUS", "prometheus")) or shutil.which(os.path.join(ROOT, "out/tools/prometheus"))
    if prometheus is None or not os.path.exists(bbrlab):
        sys.exit(f"grafana: {'no prometheus' if prometheus is None else f'no {bbrlab}'}; see tools/grafana.py --help")
    exporter_port, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as directory, open(os.path.join(directory, "log"), "w", encoding="utf-8") as log:
        config = os.path.join(directory, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [
                {"job_name": "bbrlab", "static_configs": [{"targets": [f"127.0.0.1:{exporter_port}"]}]}]}, file)
        traffic, programs = Traffic(), []
        try:
            for command in ([bbrlab, "watch", "--prometheus", f"127.0.0.1:{exporter_port}", "--interval", "1s"],
                            [prometheus, f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                             f"--web.listen-address=127.0.0.1:{port}"]):
                programs.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            yield from answer_faults(board, port, programs[0])
        finally:
            traffic.ended.set()
            for program in programs:
                program.terminate()
            for program in programs:
                program.wait(timeout=30)


def main():
    """Checks everything and exits."""
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1] != "--form"):
        sys.exit(__doc__)
    with open(os.path.join(ROOT, DASHBOARD), encoding="utf-8") as file:
        board = json.load(file)
    faults = list(form_faults(board))
    if not faults and "--form" not in sys.argv:
        faults += run_faults(board)
    for fault in faults:
        print(f"{DASHBOARD}: {fault}")
    if faults:
        sys.exit(1)
    answered = "" if "--form" in sys.argv else f", and each of {len(list(queries(board)))} queries has a value"
    print(f"{len(board['panels'])} panels: their form is right{answered}")


if __name__ == "__main__":
    main()
