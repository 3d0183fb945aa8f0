"""Algorithms in Python, and the controller itself."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import pytest

import bbrlab

PATH = {"rate": "20mbit", "rtt": "30ms", "buffer": "1bdp", "duration": "10s"}


class Steady(bbrlab.Algorithm):
    """The path's BDP, from the largest delivery rate and the smallest RTT of its ACKs."""

    def __init__(self):
        self.rate_bps, self.acks, self.losses = 0.0, 0, 0

    def on_ack(self, ack):
        self.acks += 1
        assert ack.now_s > 0 and ack.inflight >= 0 and ack.delivered_total >= self.acks
        self.rate_bps = max(self.rate_bps, ack.delivery_rate_bps or 0.0)
        bdp = self.rate_bps * (ack.min_rtt_ms or 30.0) / 1e3 / 8 / self.mss
        self.cwnd_packets = 2 * bdp + 10
        self.pacing_rate_bps = self.rate_bps * 1.05 if self.acks > 20 else None

    def on_loss(self, ack):
        self.losses += ack.lost


class Aimd(bbrlab.Algorithm):
    """Additive increase, and half once a round after loss."""

    def __init__(self):
        self.until = 0

    def on_ack(self, ack):
        self.cwnd_packets += ack.delivered / self.cwnd_packets

    def on_loss(self, ack):
        if ack.delivered_total >= self.until:
            self.cwnd_packets = max(2.0, self.cwnd_packets / 2)
            self.until = ack.delivered_total + ack.inflight


def test_an_algorithm_runs_beside_the_others():
    result = bbrlab.run(**PATH, flows=[Steady, "bbr1"])
    assert set(result.groups) == {"Steady", "bbr1"}
    assert result.groups["Steady"].share > 0.2 and result.bottleneck.utilisation > 0.9
    assert result.trace["cc"][0] == "Steady"
    assert bbrlab.run(**PATH, flows=[Steady, "bbr1"]) == result


def test_loss_reaches_an_algorithm():
    result = bbrlab.run(**PATH, loss="1%", flows=Aimd)
    alone = bbrlab.run(**PATH, flows=Aimd)
    assert result.flows[0].goodput_bps < 0.7 * alone.flows[0].goodput_bps


def test_packets_and_timeouts_reach_an_algorithm():
    made = []

    class Restarting(bbrlab.Algorithm):
        def __init__(self):
            self.sent, self.timeouts = 0, []
            self.cwnd_packets = 8.0
            made.append(self)

        def on_ack(self, ack):
            self.cwnd_packets = min(50.0, self.cwnd_packets + ack.delivered)

        def on_sent(self, sent):
            assert sent.now_s >= 0 and sent.inflight >= sent.packets
            self.sent += sent.packets

        def on_rto(self, timeout):
            self.timeouts.append(timeout.now_s)
            self.cwnd_packets = 1.0

    # For a second nothing arrives.
    result = bbrlab.run(**PATH, schedule="3s:loss=100%;4s:loss=0%", flows=[Restarting], packets=100_000)
    (one,) = made
    taps, lengths = result.packets["tap"], result.packets["bytes"]
    assert one.sent == sum(tap == "sender" and length > 0 for tap, length in zip(taps, lengths, strict=True))
    assert len(one.timeouts) == result.flows[0].rto >= 1 and all(3 < now_s < 6 for now_s in one.timeouts)


def test_classes_take_the_options_of_a_flow():
    result = bbrlab.run(**PATH, flows=["cubic*2", Steady, (Aimd, "*2@1s+1s,rtt=60ms"), Steady])
    assert [flow.name for flow in result.flows] == ["cubic#0", "cubic#1", "Steady#0", "Aimd#0", "Aimd#1", "Steady#1"]
    assert [flow.cc for flow in result.flows][2:] == ["Steady", "Aimd", "Aimd", "Steady"]
    assert [flow.start_s for flow in result.flows] == [0, 0, 0, 1, 2, 0]
    assert result.flows[3].rtt_ms.min >= 60 > result.flows[2].rtt_ms.min
    only = bbrlab.run(**PATH, flows=(Steady, ",rtt=60ms"))
    assert only.flows[0].rtt_ms.min >= 60 and only == bbrlab.run(**PATH, flows=[(Steady, ",rtt=60ms")])
    assert [flow.cc for flow in bbrlab.run(**PATH, flows=(Steady, "bbr1")).flows] == ["Steady", "bbr1"]


def test_an_exception_of_an_algorithm_ends_the_run_and_comes_out():
    class Broken(bbrlab.Algorithm):
        def on_ack(self, ack):
            raise ZeroDivisionError("at an ACK")

    with pytest.raises(ZeroDivisionError, match="at an ACK"):
        bbrlab.run(**PATH, flows=[Broken])
    assert bbrlab.run(**PATH, flows=["bbr1"]).flows[0].goodput_bps > 1e7


@pytest.mark.parametrize("window", [-1, float("nan"), "many"])
def test_a_window_that_is_none_is_refused(window):
    class Odd(bbrlab.Algorithm):
        def on_ack(self, ack):
            self.cwnd_packets = window

    with pytest.raises((ValueError, TypeError)):
        bbrlab.run(**PATH, flows=[Odd])


def test_a_class_without_on_ack_is_refused():
    with pytest.raises(TypeError, match="has a method on_ack"):
        bbrlab.run(**PATH, flows=[dict])


def drive(controller, rounds, rtt_s=0.04, rate_bps=20e6, lose=lambda number: False):
    """A transport with a pacer and one ACK a packet, over a pipe of that rate."""
    now, number, free, waiting, lost = 0.0, 0, 0.0, [], []
    end = rounds * rtt_s
    may_send = 0.0
    while now < end:
        while controller.can_send(1200) and may_send <= now:
            free = max(free, now) + 1200 * 8 / rate_bps
            waiting.append((free + rtt_s, controller.on_sent(now, 1200), number))
            pacing = controller.pacing_rate_bps
            may_send = max(may_send, now) + (1200 * 8 / pacing if pacing else 0.0)
            number += 1
        upcoming = [waiting[0][0]] if waiting else []
        if may_send > now:
            upcoming.append(may_send)
        now = min(upcoming, default=end)
        while waiting and waiting[0][0] <= now:
            _, token, first = waiting.pop(0)
            if lose(first):
                lost.append((token, first))
            else:
                controller.on_ack(now, [(token, first)], lost=lost)
                lost = []
    return number


def test_a_controller_finds_the_rate_of_a_pipe():
    for name in ("bbr1", "bbr3", "bbr3-linux"):
        controller = bbrlab.Controller(name, mss=1200)
        drive(controller, 100)
        model = controller.snapshot()
        assert 0.9 < model["bw_bps"] / 20e6 < 1.05, (name, model)
        assert 40 <= model["min_rtt_ms"] < 45 and model["full_bw_reached"]
        assert controller.state.startswith("probe")


def test_a_controller_takes_parameters():
    tuned, usual = bbrlab.Controller("bbr1", cwnd_gain=3), bbrlab.Controller("bbr1")
    drive(tuned, 100)
    drive(usual, 100)
    assert tuned.snapshot()["cwnd_gain"] == 3.0 and usual.snapshot()["cwnd_gain"] == 2.0
    assert bbrlab.Controller("bbr1,cwnd_gain=3").snapshot() == bbrlab.Controller("bbr1", cwnd_gain=3).snapshot()


def test_a_controller_reacts_to_loss():
    lossless, lossy = (bbrlab.Controller("cubic", mss=1200) for _ in range(2))
    drive(lossless, 20)
    drive(lossy, 20, lose=lambda number: number % 50 == 49)
    assert lossy.cwnd < lossless.cwnd


@pytest.mark.parametrize(
    "call",
    [
        lambda: bbrlab.Controller("bbr4"),
        lambda: bbrlab.Controller("bbr1", cwnd_gian=3),
        lambda: bbrlab.Controller("bbr1,rtt=4ms"),
        lambda: bbrlab.Controller("s2n:bbr"),
        lambda: bbrlab.Controller("bbr3", mss=0),
        lambda: bbrlab.Controller("bbr3").on_sent(-1.0, 1200),
        lambda: bbrlab.Controller("bbr3").on_sent(float("nan"), 1200),
    ],
)
def test_bad_input_to_a_controller_is_a_value_error(call):
    with pytest.raises(ValueError):
        call()
