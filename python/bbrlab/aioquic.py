"""The algorithms as congestion controls of aioquic.

>>> import bbrlab.aioquic                                                          # doctest: +SKIP
>>> bbrlab.aioquic.register("bbr3")                                                # doctest: +SKIP
>>> QuicConfiguration(is_client=True, congestion_control_algorithm="bbr3")         # doctest: +SKIP

aioquic's interface has no pacing rate: its pacer spreads a window over a round trip. This module therefore wraps the constructor of
aioquic's `QuicPacketRecovery`, so that connections with one of these controls have a pacer that asks the control; others keep
theirs. The interface also has no end of an ACK, and no sign that the application has nothing to send. The control keeps an ACK open
until aioquic asks or reports something else, and takes an application for limited that has left both window and pacer unused.
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from bbrlab._bbrlab import Controller, Token
from bbrlab._extra import extra

with extra("aioquic"):
    from aioquic.quic import recovery
    from aioquic.quic.congestion.base import QuicCongestionControl, register_congestion_control
    from aioquic.quic.packet_builder import QuicSentPacket

__all__ = ["CongestionControl", "register"]


def register(algorithm: str, name: str | None = None) -> None:
    """Makes an algorithm known to aioquic, by `name` or its own: "bbr3", or "bbr3,loss_thresh=0.05" with parameters.

    Raises `ScenarioError` for an algorithm or a parameter that there is not.
    """
    Controller(algorithm)
    register_congestion_control(name or algorithm, functools.partial(CongestionControl, algorithm))


class CongestionControl(QuicCongestionControl):  # type: ignore[misc]
    """A control of one connection. `controller` is the algorithm itself, for its state and model."""

    def __init__(self, algorithm: str, *, max_datagram_size: int) -> None:
        self.controller: Controller | None = None
        self._algorithm = algorithm
        self._size = max_datagram_size
        self._packets: dict[int, tuple[Token, int]] = {}
        self._sent = 0
        self._now = 0.0
        self._acked: list[tuple[Token, int]] = []
        self._lost: list[tuple[Token, int]] = []
        self._rtt: float | None = None
        self._is_in_ack = False
        self._window = 10 * max_datagram_size
        #: True if the pacer last let a packet go.
        self.may_send = False
        super().__init__(max_datagram_size=max_datagram_size)

    # pyright: reportIncompatibleVariableOverride=false
    # aioquic's base class assigns it once; a controller of ours decides afterwards.
    @property
    def congestion_window(self) -> int:
        """Congestion window, bytes."""
        if self._is_in_ack:
            # Between the RTT and the losses of one ACK.
            self._is_in_ack = False
        else:
            self.settle()
        return self._window

    @congestion_window.setter
    def congestion_window(self, value: int) -> None:
        self._window = value

    def _controller(self, now: float) -> Controller:
        if self.controller is None:
            self.controller = Controller(self._algorithm, mss=self._size, now_s=now)
        self._now = max(self._now, now)
        return self.controller

    def settle(self) -> None:
        """Ends the ACK that is open, if one is."""
        if self.controller is None:
            return
        if self._acked or self._lost:
            self.controller.on_ack(self._now, self._acked, lost=self._lost, rtt_s=self._rtt)
            self._acked, self._lost, self._rtt = [], [], None
        self._window = self.controller.cwnd

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        """A packet left."""
        controller = self._controller(packet.sent_time or self._now)
        self.settle()
        self._sent += 1
        self._packets[id(packet)] = (controller.on_sent(self._now, packet.sent_bytes), self._sent)
        self.bytes_in_flight += packet.sent_bytes

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """A packet of an ACK was delivered."""
        controller = self._controller(now)
        if not self._acked:
            self.settle()
            if self.may_send and self.bytes_in_flight + self._size <= self._window:
                controller.on_app_limited()
        self._acked.append(self._packets.pop(id(packet)))
        self.bytes_in_flight -= packet.sent_bytes

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        """The ACK's newest packet took this long."""
        self._rtt = rtt
        self._is_in_ack = True

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """Packets are taken for lost, by the open ACK or by a timer."""
        controller = self._controller(now)
        self._is_in_ack = False
        for packet in packets:
            token, number = self._packets.pop(id(packet))
            self.bytes_in_flight -= packet.sent_bytes
            if self._acked:
                self._lost.append((token, number))
            else:
                controller.on_lost(self._now, token, number)

    def on_packets_expired(self, *, packets: Iterable[QuicSentPacket]) -> None:
        """Packets count no more: their keys were dropped, or their data is sent again as a probe."""
        self.settle()
        for packet in packets:
            token, _ = self._packets.pop(id(packet))
            self.bytes_in_flight -= packet.sent_bytes
            if self.controller is not None:
                self.controller.on_discarded(token)

    def on_persistent_congestion(self) -> None:
        """Nothing came through for a long time (RFC 9002, 7.6)."""
        self.settle()
        if self.controller is not None:
            self.controller.on_persistent_congestion(self._now)

    def get_log_data(self) -> dict[str, Any]:
        """Values for qlog."""
        data: dict[str, Any] = super().get_log_data()
        if self.controller is not None and self.controller.pacing_rate_bps is not None:
            data["pacing_rate"] = self.controller.pacing_rate_bps
        return data


class _Pacer(recovery.QuicPacketPacer):  # type: ignore[misc]
    """aioquic's pacer, at the rate of a control that has one."""

    def __init__(self, control: CongestionControl, *, max_datagram_size: int) -> None:
        super().__init__(max_datagram_size=max_datagram_size)
        self._control = control

    def next_send_time(self, now: float) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._control.settle()
        controller = self._control.controller
        rate = controller.pacing_rate_bps if controller is not None else None
        if controller is not None and rate:
            self.packet_time = self._max_datagram_size * 8 / rate
            self.bucket_max = max(controller.send_quantum, 2 * self._max_datagram_size) * 8 / rate
            self.bucket_time: float = min(self.bucket_time, self.bucket_max)
        due: float | None = super().next_send_time(now)
        self._control.may_send = due is None
        return due


def _wrapped(original: Any) -> Any:
    @functools.wraps(original)
    def init(self: recovery.QuicPacketRecovery, *, max_datagram_size: int, **more: Any) -> None:
        original(self, max_datagram_size=max_datagram_size, **more)
        if isinstance(self._cc, CongestionControl):
            self._pacer = _Pacer(self._cc, max_datagram_size=max_datagram_size)

    return init


recovery.QuicPacketRecovery.__init__ = _wrapped(recovery.QuicPacketRecovery.__init__)
