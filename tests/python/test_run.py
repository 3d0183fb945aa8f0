"""Runs, results and errors, beside the command."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import asyncio
import json
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import types
import typing
from concurrent.futures import ThreadPoolExecutor

import pyarrow
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as some

import bbrlab
from conftest import ROOT

KEYS = {"rate": "20mbit", "rtt": "30ms", "buffer": "1bdp", "flows": ["bbr3", "cubic@1s"], "duration": "4s"}
flow = some.builds(
    lambda cc, start, option: f"{cc}@{start}ms{option}",
    some.sampled_from(["bbr1", "bbr2", "bbr3", "bbr3-linux", "cubic", "reno", "bbr-s", "fixed"]),
    some.integers(0, 900),
    some.sampled_from(["", ",size=200kB", ",rtt=80ms", ",rwnd=64KiB", ",ecn=on"]),
)
scenarios = some.fixed_dictionaries(
    {
        "rate": some.integers(1, 60).map("{}mbit".format),
        "rtt": some.integers(1, 120).map("{}ms".format),
        "buffer": some.sampled_from(["10p", "0.5bdp", "2bdp", "64kB"]),
        "loss": some.sampled_from(["0%", "0.5%", "ge:1%,10%,50%"]),
        "seed": some.integers(1, 1 << 40),
        "flows": some.lists(flow, min_size=1, max_size=3),
    }
)


# A commit draws scenarios of its own; BBRLAB_SEED repeats another one's.
@seed(int(os.environ.get("BBRLAB_SEED", "1"), 16))
@settings(max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=scenarios)
def test_random_scenarios_give_the_document_of_the_command_or_its_error(command, keys):
    keys = {**keys, "duration": "2s"}
    text = json.dumps({"flow" if key == "flows" else key: value for key, value in keys.items()})
    wanted, errors = command("run", "/dev/stdin", "--json", "-", stdin=text)
    if wanted is None:
        with pytest.raises(bbrlab.ScenarioError) as raised:
            bbrlab.run(**keys)
        assert str(raised.value) in errors
        return
    result = bbrlab.run(**keys).to_dict()
    for document in (result, wanted):
        document["wall_s"] = 0.0
    assert result == wanted


def test_the_text_of_the_document_is_that_of_the_command(command, tmp_path):
    result = bbrlab.run(**KEYS)
    path = tmp_path / "scenario.json"
    path.write_text(result.scenario.to_json())
    out = tmp_path / "out.json"
    command("run", str(path), "--quiet", "--json", str(out))
    lines = [line for line in out.read_text().splitlines() if '"wall_s"' not in line]
    assert [line for line in result.to_json().splitlines() if '"wall_s"' not in line] == lines


def test_a_result_has_attributes_groups_and_series():
    result = bbrlab.run(**KEYS)
    assert result.flows[0].goodput_bps > 1e6 and result.bottleneck.queue_ms.p95 > 0
    assert math.isclose(sum(group.share for group in result.groups.values()), 1.0)
    assert list(result.groups) == ["bbr3", "cubic"]
    with pytest.raises(AttributeError, match="no 'goodput'; there are"):
        _ = result.flows[0].goodput
    table = pyarrow.table(result.trace)
    assert table.num_rows == len(result.trace) and set(table["cc"].to_pylist()) == {"bbr3", "cubic"}
    assert table["cwnd"].to_pylist() == result.trace["cwnd"]
    links = pyarrow.table(result.links)
    assert max(links["queue_packets"].to_pylist()) > 1
    assert len(result.packets) == 0
    packets = pyarrow.table(bbrlab.run(**KEYS, packets=5_000).packets)
    assert packets.num_rows == 5_000 and set(packets["direction"].to_pylist()) == {"data", "ack"}
    with pytest.raises(KeyError, match="no column .x.; the columns are t_s"):
        _ = result.trace["x"]


def test_polars_reads_the_series_without_pyarrow():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(bbrlab.run(**KEYS).trace)
    assert frame.filter(polars.col("flow") == "bbr3#0")["cwnd"].max() > 10


def test_scenarios_come_from_keywords_dicts_toml_and_files(tmp_path):
    one = bbrlab.Scenario(**KEYS)
    toml = "rate = '20mbit'\nrtt = '30ms'\nbuffer = '1bdp'\nflow = ['bbr3', 'cubic@1s']\nduration = '4s'\n"
    path = tmp_path / "s.toml"
    path.write_text(toml)
    for other in (bbrlab.Scenario(KEYS), bbrlab.Scenario(toml), bbrlab.Scenario(path), bbrlab.Scenario(one)):
        assert bbrlab.run(other) == bbrlab.run(one)
    assert one.replace(seed=2) != one and one.replace(seed=2).to_dict()["seed"] == 2
    assert one.filled()["seed"] == 1 and len({one, bbrlab.Scenario(**KEYS)}) == 1
    with pytest.raises(AttributeError, match="immutable"):
        one.rate = "1mbit"


def test_the_command_of_a_scenario_gives_the_same_result(command):
    scenario = bbrlab.Scenario(**KEYS, loss="0.5%", seed=7)
    import shlex

    wanted, _ = command(*shlex.split(scenario.command)[1:], "--json", "-")
    result = bbrlab.run(scenario).to_dict()
    wanted["wall_s"] = result["wall_s"] = 0.0
    assert result == wanted


def test_repeated_runs_have_a_summary_and_can_be_compared():
    some, other = bbrlab.run(**KEYS, repeat=3, loss="0.3%"), bbrlab.run(**KEYS, repeat=3)
    assert len(some.runs) == 3 and some.summary is not None
    rows = {row["figure"]: row for row in bbrlab.compare(some, other).rows()}
    assert rows["goodput_bps"]["ratio"] > 0.9
    assert "goodput_bps" in repr(bbrlab.compare(some, other))


def test_pages_and_pickles():
    result = bbrlab.run(**KEYS)
    assert "<iframe" in result._repr_html_() and "bbr3#0" in result.plot().text
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.trace["cwnd"] == result.trace["cwnd"]
    assert pickle.loads(pickle.dumps(result.scenario)) == result.scenario


def test_a_result_can_be_written_and_read(tmp_path):
    result = bbrlab.run(**KEYS)
    path = tmp_path / "r.json"
    path.write_text(result.to_json())
    assert bbrlab.read(path) == result and bbrlab.read(path).trace["lost"] == result.trace["lost"]
    result.report(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_documents_and_tables_are_read(command, tmp_path):
    for flag, name in (("--csv", "series.csv"), ("--parquet", "series.parquet")):
        _, error = command("run", "--duration", "1s", "--json", "-", flag, tmp_path / name)
        assert not error
        read = bbrlab.read(tmp_path / name).to_pylist()
        flows = [row for row in read if row["kind"] == "flow" and row.get("metric", "cwnd") == "cwnd"]
        windows = [row.get("value", row.get("cwnd")) for row in flows]
        assert windows == bbrlab.run(duration="1s").trace["cwnd"]
    command("cdn", "--users", "1", "--json", tmp_path / "cdn.json")
    assert bbrlab.read(tmp_path / "cdn.json").version == bbrlab.__version__
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", ROOT / "README.md"):
        with pytest.raises(ValueError, match=path.name):
            bbrlab.read(path)


@pytest.mark.parametrize(
    ("keys", "where", "text"),
    [
        ({"rat": "1mbit"}, "", "did you mean rate?"),
        ({"rate": 10}, "rate", "10"),
        ({"rate": "10"}, "rate", "as in 10mbit"),
        ({"loss": math.nan}, "loss", "nan is no number"),
        ({"flows": []}, "flow", "write at least one"),
        ({"flows": ["bbr4"]}, "flow[0]", 'no algorithm "bbr4"'),
        ({"duration": "-1s"}, "duration", "-1s"),
        ({"rate": "400gbit", "duration": "10h"}, "duration", "packets_max"),
        ({"on": "kernel"}, "on", "only sim"),
    ],
)
def test_bad_input_is_one_line_with_its_place(keys, where, text):
    with pytest.raises(bbrlab.ScenarioError) as raised:
        bbrlab.run(**keys)
    assert text in str(raised.value) and "\n" not in str(raised.value) and not str(raised.value).startswith(":")
    assert raised.value.where == where
    assert isinstance(raised.value, ValueError)


def test_an_error_has_the_value_found_and_the_values_accepted():
    with pytest.raises(bbrlab.ScenarioError) as raised:
        bbrlab.run(link=[{"rate": "1mbit"}, {"rate": "1mbit", "buffer": "9x"}])
    assert (raised.value.where, raised.value.found) == ("link[1].buffer", "9x")
    with pytest.raises(bbrlab.ScenarioError) as raised:
        bbrlab.run(rate="fast")
    assert raised.value.found == "fast" and "10mbit" in raised.value.accepted
    for wrong in [{"repeat": 2.5}, "repeat = 2.5"]:
        with pytest.raises(bbrlab.ScenarioError) as raised:
            bbrlab.run(wrong)
        assert (raised.value.found, raised.value.accepted) == ("2.5", "a whole number from 1 to 100000")


def test_texts_of_the_table_of_keys_have_no_blank_at_their_ends():
    texts = [line for rows in bbrlab.keys().values() for row in rows for line in row["meaning"]]
    assert texts and not [line for line in texts if line != line.strip()]


def test_a_part_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"pip install 'bbrlab\[progress\]'"):
        bbrlab.run(**KEYS, progress=True)


@pytest.mark.parametrize("keys", [{"rate": b"1mbit"}, {"flows": b"bbr1"}, {"name": object()}])
def test_values_without_a_form_in_a_scenario_are_type_errors(keys):
    with pytest.raises(TypeError, match="flows|no value of a scenario"):
        bbrlab.run(**keys)


@pytest.mark.parametrize("keys", [{"flows": 7}, {"flow": "bbr1", "flows": ["bbr1"]}])
def test_wrong_types_are_type_errors(keys):
    with pytest.raises(TypeError):
        bbrlab.run(**keys)


def test_threads_processes_and_tasks_give_the_same():
    wanted = bbrlab.run(**KEYS)
    with ThreadPoolExecutor(3) as threads:
        assert all(one == wanted for one in threads.map(lambda _: bbrlab.run(**KEYS), range(4)))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert all(one == wanted for one in pool.map(bbrlab.run, [KEYS] * 3))

    # A forked process has none of its parent's threads.
    assert len(bbrlab.run(**KEYS, repeat=2).runs) == 2
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(bbrlab.run, [{**KEYS, "repeat": 2}] * 2).get(timeout=60)[0] == bbrlab.run(**KEYS, repeat=2)

    async def several():
        return await asyncio.gather(*(bbrlab.arun(**KEYS) for _ in range(3)))

    assert all(one == wanted for one in asyncio.run(several()))


def test_control_c_stops_a_run_within_a_tenth_of_a_second():
    # A shell's job in the background ignores the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        bbrlab.run(rate="1gbit", duration="10min", sample="0s", packets_max=1e12)
    took_s = time.monotonic() - sent[0]
    thread.join()
    assert took_s < 2  # a tenth on a quiet machine


def test_progress_is_reported():
    seen = []
    bbrlab.run(**KEYS, progress=seen.append)
    assert seen == sorted(seen) and seen[-1] == 1.0 and len(seen) == 100


def test_a_progress_that_raises_stops_the_run():
    def fail(_share):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        bbrlab.run(**KEYS, progress=fail)


def test_the_catalogue():
    names = [one["name"] for one in bbrlab.algorithms()]
    assert {"bbr1", "bbr2", "bbr3", "cubic", "reno"} <= set(names)
    assert "loss_thresh" in [one["name"] for one in bbrlab.parameters("bbr3")]
    with pytest.raises(bbrlab.ScenarioError):
        bbrlab.parameters("bbr4")
    assert "rate" in [one["name"] for one in bbrlab.keys()["keys"]]
    assert json.dumps(bbrlab.keys())


def test_figures_have_the_types_that_they_say():
    found = bbrlab.run(rate="10mbit", rtt="40ms", flows=["bbr1", "cubic,size=1MB"], duration="3s").runs[0]

    def checked(value, kind):
        if kind is float:
            return isinstance(value, (int, float))
        if typing.get_origin(kind) is list:
            return all(checked(one, typing.get_args(kind)[0]) for one in value)
        if isinstance(kind, types.UnionType):
            return value is None or checked(value, typing.get_args(kind)[0])
        if not isinstance(value, kind):
            return False
        hints = {
            name: hint for name, hint in typing.get_type_hints(kind).items() if name in kind.__dict__.get("__annotations__", {})
        }
        assert not isinstance(value, bbrlab.Record) or kind is bbrlab.Record or set(value) <= set(hints), kind
        # What may be None may be missing.
        parts = [(getattr(value, name, None), hint) for name, hint in hints.items() if not name.startswith("_")]
        return all(checked(*one) for one in parts)

    assert checked(found, bbrlab.Run)
    assert type(found.flows[0].rtt_ms) is bbrlab.Distribution and type(found.groups[0]) is bbrlab.Group
    assert type(pickle.loads(pickle.dumps(found))) is bbrlab.Run and found.flows[0].state_s.startup > 0
