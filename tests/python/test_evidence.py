"""Claims and test cases, beside the command."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from concurrent.futures import ThreadPoolExecutor

import pytest

import bbrlab


def test_a_claim_has_the_document_of_the_command(command):
    wanted, _ = command("reproduce", "F6", "--json", "-")
    found = bbrlab.reproduce("F6")
    assert found._table == wanted and found.experiments[0].holds
    with pytest.raises(bbrlab.ScenarioError, match="no claim .*; there are"):
        bbrlab.reproduce("F66")


def test_cases_have_the_document_of_the_command(command):
    wanted, _ = command("conform", "bbr3", "bbr1", "--case", "2", "--cell", "20mbit/100ms", "--json", "-")
    found = bbrlab.conform("bbr3", "bbr1", cases=[2], cells=["20mbit/100ms"])
    assert found._table == wanted
    assert [case.algorithm for case in found.cases] == ["bbr3", "bbr1"]


def test_a_score_has_the_document_of_the_command(command):
    wanted, _ = command("score", "bbr3", "--criterion", "5.1.3", "--repeat", "1", "--set", "2", "--json", "-")
    found = bbrlab.score("bbr3", criteria=["5.1.3"], repeat=1, set=2)
    assert found._table == wanted
    assert found.criteria[0].section == "5.1.3"


class Window(bbrlab.Algorithm):
    """A window that no loss changes."""

    def on_ack(self, ack):
        self.cwnd_packets = 40


class Broken(bbrlab.Algorithm):
    """Fails at the first ACK."""

    def on_ack(self, ack):
        raise ArithmeticError("broken")


def test_a_class_is_scored_beside_names():
    once = {"criteria": ["5.1.2"], "repeat": 1}
    found = bbrlab.score(Window, compare=["cubic"], **once)
    assert found.subjects == ["Window"] and found.references == ["cubic"]
    runs = [run for case in found.criteria[0].cases for run in case.runs]
    of = {name: [run["values"] for run in runs if run["algorithm"] == name] for name in ("Window", "cubic")}
    beside = bbrlab.score("bbr3", compare=["cubic"], **once)
    assert of["cubic"] == [run["values"] for case in beside.criteria[0].cases for run in case.runs if run["algorithm"] == "cubic"]
    assert len(of["Window"]) == len(of["cubic"]) and of["Window"] != of["cubic"]
    assert bbrlab.score(Window, compare=["cubic"], **once) == found
    with pytest.raises(ArithmeticError, match="broken"):
        bbrlab.score(Broken, compare=["cubic"], **once)


def test_an_executor_gives_the_same_documents():
    with ThreadPoolExecutor(2) as pool:
        assert bbrlab.reproduce("PROBE-RTT", "F2", executor=pool) == bbrlab.reproduce("PROBE-RTT", "F2")
        cells = ["20mbit/100ms"]
        assert bbrlab.conform("bbr3", "bbr1", cases=[2, 4], cells=cells, executor=pool) == bbrlab.conform(
            "bbr3", "bbr1", cases=[2, 4], cells=cells
        )
        for call in (lambda: bbrlab.reproduce("F66", executor=pool), lambda: bbrlab.conform("bbr3", cases=[99], executor=pool)):
            with pytest.raises(bbrlab.ScenarioError, match="no c"):
                call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: bbrlab.conform(), "no algorithm"),
        (lambda: bbrlab.conform("bbr4"), "bbr4"),
        (lambda: bbrlab.conform("bbr3", cases=[99]), "no case 99"),
        (lambda: bbrlab.conform("bbr3", cells=["fast"]), "fast"),
        (lambda: bbrlab.score(), "no algorithm"),
        (lambda: bbrlab.score("bbr4"), "bbr4"),
        (lambda: bbrlab.score("bbr3", criteria=["9.9"]), "9.9"),
        (lambda: bbrlab.score("bbr3", repeat=0), "at least 1"),
        (lambda: bbrlab.score(Window, Broken), "at most one class"),
        (lambda: bbrlab.score(7), "at most one class"),
        (lambda: bbrlab.score(Window, "fixed"), "stands for a class"),
    ],
)
def test_bad_input_is_a_value_error(call, text):
    with pytest.raises(ValueError, match=text):
        call()
