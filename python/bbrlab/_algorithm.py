"""Algorithms written in Python, and the texts that stand for them in a scenario."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bbrlab import _bbrlab

#: Classes of algorithms, each with the index of its flow's text.
Classes = tuple[tuple[int, Callable[[], Any]], ...]


class Algorithm:
    """Base of a congestion control in Python. Override `on_ack`; set `cwnd_packets` or `cwnd_bytes`, and `pacing_rate_bps`.

    Each flow of each run gets an object of its own, made without arguments. `mss` is set before `on_start`. A class stands for a
    flow; `(Class, "*2@5s,rtt=80ms")` adds a number of flows, a start and options, as in the text of a flow.
    """

    mss: int = 1448
    #: Congestion window in packets; takes precedence over `cwnd_bytes`.
    cwnd_packets: float | None = 10.0
    #: Congestion window in bytes of payload.
    cwnd_bytes: float | None = None
    #: Pacing rate in bit/s of payload; None sends without pacing.
    pacing_rate_bps: float | None = None

    def on_start(self, now_s: float) -> None:
        """Called when the handshake is complete."""

    def on_ack(self, ack: _bbrlab.Ack) -> None:
        """Called for each ACK."""
        raise NotImplementedError

    def on_loss(self, ack: _bbrlab.Ack) -> None:
        """Called before `on_ack` if packets were marked lost since the last ACK."""

    def on_sent(self, sent: _bbrlab.Sent) -> None:
        """Called for packets that leave together."""

    def on_rto(self, timeout: _bbrlab.Timeout) -> None:
        """Called at a retransmission timeout, before anything is sent again."""


def is_pair(flow: Any) -> bool:
    """True for a class with the options of its flows."""
    return isinstance(flow, tuple) and len(flow) == 2 and callable(flow[0]) and str(flow[1])[:1] in ("*", "@", ",")


def texts_of(flows: Sequence[Any]) -> tuple[list[Any], Classes]:
    """Texts of flows, and the classes among them, for which the algorithm `fixed` stands."""
    pairs = [flow if is_pair(flow) else (flow, "") for flow in flows]
    classes = tuple((nth, own) for nth, (own, _) in enumerate(pairs) if callable(own))
    names: dict[Any, int] = {}
    texts: list[Any] = []
    for (own, options), flow in zip(pairs, flows, strict=True):
        if not callable(own):
            texts.append(flow)
            continue
        head, _, rest = options.partition(",")
        given = [f"fixed{head}", *([rest] if rest else [])]
        if "name=" not in rest:
            name = getattr(own, "__name__", type(own).__name__)
            number = names.setdefault(own, 0)
            names[own] += 1
            # The scenario language numbers the flows of one text by itself.
            is_numbered = sum(other is own for _, other in classes) > 1
            given.append(f"name={name}#{number}" if is_numbered else f"name={name}")
        texts.append(",".join(given))
    return texts, classes
