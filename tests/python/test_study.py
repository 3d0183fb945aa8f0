"""Advice, tuning, users and replays, beside the command."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import fsspec
import pytest

import bbrlab
from conftest import BBRLAB, ROOT

SS = (
    "ESTAB 0 0 192.0.2.1:443 198.51.100.7:50000\n\t cubic wscale:7,7 rto:204 rtt:48.2/3.1 mss:1448 cwnd:90 bytes_sent:9000000"
    " bytes_acked:8990000 segs_out:6300 data_segs_out:6290 send 21Mbps delivery_rate 19.5Mbps busy:4000ms minrtt:41.3\n"
)
PATHS = [{"rate": "20mbit", "rtt": "40ms", "rivals": "1"}, {"rate": "5mbit..9mbit", "rtt": "80ms", "buffer": "1bdp", "weight": 2.0}]
USERS = {
    "users": 3,
    "class": [
        {"name": "home", "network": "dsl", "rate": "20mbit", "rtt": "30ms", "size": "300kB"},
        {"name": "far", "network": "fibre", "rate": "100mbit", "rtt": "150ms", "size": "1MB", "rivals": ["cubic"]},
    ],
}


def toml(paths):
    lines = []
    for one in paths:
        lines += ["[[path]]", *(f"{key} = {json.dumps(value)}" for key, value in one.items())]
    return "\n".join(lines) + "\n"


def test_advice_is_that_of_the_command(command):
    wanted, _ = command(
        "advise", "--rate", "10mbit", "--rtt", "20ms..40ms", "--aqm", "codel", "--draws", "3", "--duration", "3s", "--json", "-"
    )
    advice = bbrlab.advise(rate="10mbit", rtt="20ms..40ms", aqm="codel", draws=3, duration="3s")
    assert advice.to_dict() == wanted
    assert advice.choice in advice.candidates and 0 <= advice.sure <= 1 and repr(advice) == advice.headline
    again = pickle.loads(pickle.dumps(advice))
    assert type(again) is bbrlab.Advice and again == advice and (again.choice, again.headline) == (advice.choice, advice.headline)
    assert again.to_json() == advice.to_json()
    command_of_page = (
        "bbrlab advise --rate 10mbit --rtt 20ms..40ms --aqm codel --draws 3 --duration 3s --objective balanced --seed 1"
    )
    assert command_of_page in advice.plot().text


def test_advice_for_calls_is_that_of_the_command(command):
    flags = ["--rate", "8mbit", "--rtt", "40ms", "--for", "calls", "--draws", "3", "--duration", "5s"]
    wanted, _ = command("advise", *flags, "--json", "-")
    advice = bbrlab.advise(rate="8mbit", rtt="40ms", application="calls", draws=3, duration="5s")
    assert advice.to_dict() == wanted and wanted["conditions"]["application"]["name"] == "calls"
    assert "--for calls" in advice.plot().text


def test_advice_from_a_measurement_is_that_of_the_command(command, tmp_path):
    (tmp_path / "ss.txt").write_text(SS)
    wanted, error = command("advise", "--from", tmp_path / "ss.txt", "--draws", "3", "--duration", "2s", "--json", "-")
    assert not error
    advice = bbrlab.advise(tmp_path / "ss.txt", draws=3, duration="2s")
    assert advice.to_dict() == wanted and advice.candidates["cubic"] and wanted["said"]


def test_a_population_is_a_list_a_table_a_text_or_a_file(command, tmp_path):
    file = tmp_path / "population.toml"
    file.write_text(toml(PATHS))
    wanted, _ = command("advise", "--population", file, "--draws", "4", "--duration", "2s", "--json", "-")
    for population in (PATHS, {"path": PATHS}, toml(PATHS), file, str(file)):
        assert bbrlab.advise(population=population, draws=4, duration="2s").to_dict() == wanted


def test_a_tuning_is_that_of_the_command(tmp_path):
    tuned = bbrlab.tune("bbr1", PATHS[:1], parameters=["cwnd_gain"], settings=4, generations=1, paths=1, held_out=2)
    assert tuned.flow.startswith("bbr1,cwnd_gain=") and tuned.headline and "[parameters]" not in tuned.flow
    tuned.save(tmp_path / "tuned.toml")
    assert f'cwnd_gain = "{tuned.parameters["cwnd_gain"]}"' in (tmp_path / "tuned.toml").read_text()
    # The setting runs.
    assert bbrlab.run(rate="20mbit", rtt="40ms", duration="1s", flows=[tuned.flow]).flows
    tuned.report(tmp_path / "page.html")
    assert "bbrlab tune bbr1 --population population.toml" in (tmp_path / "page.html").read_text()


def test_users_are_those_of_the_command(command, tmp_path):
    wanted, _ = command("cdn", "--users", "2", "--algorithms", "bbr3,cubic", "--json", "-")
    assert bbrlab.cdn(users=2, algorithms=["bbr3", "cubic"]).to_dict() == wanted
    table = ROOT / "examples" / "paths.csv"
    wanted, _ = command("cdn", table, "--json", "-")
    assert bbrlab.cdn(table).to_dict() == wanted
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert bbrlab.cdn(table, executor=pool).to_dict() == wanted
        shared, alone = bbrlab.cdn(users=2, executor=pool), bbrlab.cdn(users=2)
        assert shared.to_dict() == alone.to_dict() and "expect" in alone and shared.plot().text == alone.plot().text
        assert bbrlab.cdn(USERS, executor=pool).to_dict() == bbrlab.cdn(USERS).to_dict()
    study = bbrlab.cdn(USERS)
    assert study.users == 6 and "<html" in study.plot().text


def test_logs_are_replayed_as_by_the_command(command):
    logs = sorted((ROOT / "crates/replay/tests/data/replay").iterdir())[:2]
    wanted, _ = command("replay", "--json", *logs)
    assert bbrlab.replay(*logs)._table == wanted and wanted["equal"]


def test_a_log_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match="missing.tap"):
        bbrlab.replay("missing.tap")


def test_a_report_of_a_test_is_that_of_the_command(command, tmp_path):
    folder = ROOT / "examples" / "ab-test"
    wanted, _ = command("ab", "report", folder, "--json")
    found = bbrlab.ab.report(folder)
    assert found.to_dict() == wanted and found.headline.startswith("Against cubic: bbr3-linux")
    assert found.policy.startswith("# Made by bbrlab") and "<html" in found.plot().text
    assert len(set(bbrlab.read(folder)["id"].to_pylist())) == found.connections == 300
    two = tmp_path / "two"
    shutil.copytree(folder, two)
    text = (two / "experiment.json").read_text()
    (two / "experiment.json").write_text(text.replace('"begun_unix_s": ', '"begun_unix_s": 1'))
    wanted, error = command("ab", "report", folder, two, "--json")
    assert bbrlab.ab.report([folder, two]).to_dict() == wanted, error


def test_a_test_may_be_summarised_or_at_a_url(command, tmp_path):
    folder = ROOT / "examples/ab-test"
    wanted, _ = command("ab", "report", folder, "--json")
    assert bbrlab.ab.report(folder.as_uri()).to_dict() == wanted
    fsspec.filesystem("memory").put(str(folder), "/ab/test", recursive=True)
    assert bbrlab.ab.report("memory://ab/test").to_dict() == wanted
    with pytest.raises(FileNotFoundError, match="memory://ab/other"):
        bbrlab.ab.report("memory://ab/other")
    file = tmp_path / "summary.json"
    file.write_text(bbrlab.ab.summary(folder))
    summarised = bbrlab.ab.report(file)
    assert summarised.connections == wanted["connections"] and summarised.arms[0].bytes_acked == wanted["arms"][0]["bytes_acked"]
    assert json.loads(file.read_text()) == json.loads(subprocess.check_output([BBRLAB, "ab", "summary", folder]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bbrlab.advise(), "rate: give what is known"),
        (lambda: bbrlab.advise(rate="10mbit", rtt="soon"), "rtt: .*soon"),
        (lambda: bbrlab.advise(rate="10mbit", rtt="10ms", color="red"), "color"),
        (lambda: bbrlab.advise(rate="10mbit", rtt="10ms", algorithms=["bbr4"]), "algorithms: .*bbr4"),
        (lambda: bbrlab.advise(rate="10mbit", rtt="10ms", algorithms=["cubic"]), "nothing to compare"),
        (lambda: bbrlab.advise(rate="10mbit", rtt="10ms", objective="fun"), "objective: .*fun"),
        (lambda: bbrlab.advise(rate="10mbit", rtt="10ms", application="movies"), "for: .*movies.* bulk, video, live, calls"),
        (lambda: bbrlab.advise(rate="10mbit", population=PATHS), "leave out"),
        (lambda: bbrlab.advise(population=[{"rate": "10mbit"}]), "rtt"),
        (lambda: bbrlab.tune("bbr1", [], held_out=2), "path"),
        (lambda: bbrlab.tune("bbr1", PATHS, settings=1), "settings: 1 is out of range"),
        (lambda: bbrlab.tune("bbr9", PATHS, settings=4), "bbr9"),
        (lambda: bbrlab.cdn({"class": []}), "class"),
        (lambda: bbrlab.cdn(ROOT / "README.md"), "not a .toml"),
        (lambda: bbrlab.cdn(ROOT / "examples/paths.csv", users=3), "users: .*leave it out"),
        (lambda: bbrlab.replay(ROOT / "README.md"), "README.md: "),
        (lambda: bbrlab.replay(), "no file"),
        (lambda: bbrlab.ab.report([]), "no directory"),
        (lambda: bbrlab.ab.report(ROOT / "docs"), "docs"),
        (lambda: bbrlab.ab.report([ROOT / "examples/ab-test"] * 2), "twice"),
    ],
)
def test_bad_input_is_a_value_error(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_a_missing_file_is_an_oserror(tmp_path):
    for call in (bbrlab.advise, bbrlab.cdn, bbrlab.replay):
        with pytest.raises(FileNotFoundError):
            call(str(tmp_path / "nothing.csv"))


def test_control_c_stops_a_study():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bbrlab.advise(rate="20mbit", rtt="40ms", draws=8_000, duration="10s")
    # The whole study takes a minute and more.
    assert time.monotonic() - begun < 15
