"""Types of a result's figures, made from crates/sim/src/record/result.rs by tools/python_types.py.

Rates are in bit/s, times in seconds unless the name ends in `_ms`, volumes in bytes, ratios from 0 to 1.
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

from typing import Any, ClassVar

from bbrlab._record import Record

__all__ = [
    "Bottleneck",
    "CallResult",
    "Distribution",
    "Expectation",
    "Flow",
    "Group",
    "Model",
    "PageResult",
    "ProbeResult",
    "RequestResult",
    "Responsiveness",
    "Run",
    "UpLink",
    "VideoResult",
]


class Distribution(Record):
    """A distribution in milliseconds."""

    __slots__ = ()

    min: float | None
    """Smallest."""
    mean: float
    """Mean."""
    p50: float
    """Median."""
    p95: float
    """95th percentile."""
    p99: float
    """99th percentile."""
    max: float
    """Largest."""


class Responsiveness(Record):
    """Responsiveness by draft-ietf-ippm-responsiveness-09, in round trips per minute. Each term is 60000 over the mean, in ms, of
    the lowest 95 % of the samples.
    """

    __slots__ = ()

    rpm: float
    """Mean of `foreign` and `loaded`."""
    foreign: float
    """Term of new connections, from the probe's RTTs: TCP's handshake, TLS's and the request each count as one such RTT."""
    loaded: float
    """Term of requests on the loaded connections, from the RTTs of the bulk flows' ACKs. The wait in a sender's own buffer and
    behind a retransmission is not part of it.
    """


class VideoResult(Record):
    """A video's figures from the flow's start to its end."""

    __slots__ = ()

    rule: str
    """The player's rule for the bitrate: `buffer` or `throughput`."""
    startup_s: float | None
    """Time from the SYN to the first picture; None if there was none."""
    stalls: int
    """Interruptions of playback."""
    stalled_s: float
    """Time spent in interruptions."""
    played_s: float
    """Media played."""
    segments: int
    """Segments that have arrived."""
    bytes: int
    """Their bytes."""
    bitrate_bps: float
    """Mean bitrate of these segments."""
    switches: int
    """Changes of the bitrate."""
    qoe: float
    """Quality of experience, in kbit/s for each segment: Yin et al., SIGCOMM 2015, linear quality and balanced weights. It is the
    mean bitrate less the mean change of the bitrate, and less 3000 times the seconds of stall and start-up delay over the number
    of segments.
    """
    latency_s: float | None
    """Latency of live video at the end: the target, start-up delay and stalls together; None for video on demand."""


class Model(Record):
    """An algorithm's model of the path."""

    __slots__ = ()

    bw_bps: float
    """Bandwidth estimate, payload."""
    min_rtt_ms: float | None
    """Minimum RTT; None where none was measured."""


class Group(Record):
    """The flows of one algorithm together."""

    __slots__ = ()

    cc: str
    """The algorithm."""
    flows: int
    """Number of flows."""
    goodput_bps: float
    """Rate of the flows' unique payload over the result's interval."""
    share: float
    """The flows' share of all unique payload bytes."""


class Expectation(Record):
    """One expectation with its verdict."""

    __slots__ = ()

    id: str
    """Claim to which it belongs."""
    what: str
    """Description of the measured figure."""
    expected: str
    """Expected value, in words and numbers."""
    measured: float
    """Measured value."""
    holds: bool
    """True if the expectation holds."""


class UpLink(Record):
    """Figures of the link that ACKs and uploads share, over the measured time."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {"queue_ms": Distribution}

    utilisation: float
    """Bytes that left, relative to the link's capacity."""
    arrivals: int
    """Packets offered, ACKs and data."""
    drops: int
    """Packets dropped by the queue."""
    drop_ratio: float
    """drops / arrivals."""
    marks: int
    """Packets marked."""
    filtered: int
    """ACKs removed because a newer one arrived."""
    queue_ms: Distribution
    """Queueing delay over time, as that of the bottleneck, ms."""


class Bottleneck(Record):
    """The bottleneck's figures over the measured time."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {"queue_ms": Distribution}

    utilisation: float
    """Bytes that left, relative to the link's capacity."""
    arrivals: int
    """Packets offered."""
    drops: int
    """Packets dropped by policer or queue."""
    drop_ratio: float
    """drops / arrivals."""
    marks: int
    """Packets marked."""
    queue_ms: Distribution
    """Queueing delay weighted by time, not by packets. At each moment it is the wait of the packet being sent, or 0 if that had not
    waited. Its mean is the backlog before the serialiser over the rate. A kernel that reports only its backlog (`uml`) gives
    that, on the grid of its samples.
    """


class ProbeResult(Record):
    """The lag probe's figures over the measured time."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {"rtt_ms": Distribution, "rpm": Responsiveness}

    interval_s: float
    """Interval between two probes."""
    sent: int
    """Probes sent whose echo could have arrived by the end."""
    lost: int
    """Probes without an echo."""
    loss_ratio: float
    """lost / sent."""
    rtt_ms: Distribution | None
    """RTT of each echoed probe; None where none was echoed."""
    rpm: Responsiveness | None
    """Responsiveness under load; None without an echo or without a bulk flow."""


class CallResult(Record):
    """A call's figures over its whole life."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {"delay_ms": Distribution}

    frames: int
    """Frames that have arrived, or whose deadline has passed."""
    late: int
    """Frames that did not arrive within the deadline."""
    late_ratio: float
    """late / frames."""
    deadline_ms: float
    """Deadline: longest delay of a frame in time."""
    delay_ms: Distribution | None
    """Delay from the capture of each frame to the arrival of its last byte; None where none has arrived."""
    mos: float
    """Mean opinion score of a G.711 call that plays each packet at the deadline and loses the late ones: E-model as simplified by
    Cole and Rosenbluth, CCR 2001; 1 (bad) to 4.5.
    """


class PageResult(Record):
    """Figures of the page loads of a flow, from its start."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {"load_ms": Distribution}

    objects: int
    """Objects of a page."""
    page_bytes: int
    """Bytes of a page."""
    loads: int
    """Complete loads."""
    load_ms: Distribution | None
    """Page-load time: from the request of the document (of the first load, the SYN) to the last byte of the last object; None
    without a complete load.
    """


class RequestResult(Record):
    """Figures of the responses of a flow with a deadline, from its start."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {"time_ms": Distribution}

    responses: int
    """Responses that have arrived."""
    late: int
    """Responses that arrived after the deadline."""
    late_ratio: float
    """late / responses."""
    deadline_ms: float
    """Deadline: longest time of a response in time."""
    time_ms: Distribution | None
    """Time from a request (of the first, the SYN) to the last byte of its response; None without a response."""


class Flow(Record):
    """One flow's figures over the measured time."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {
        "rtt_ms": Distribution,
        "call": CallResult,
        "video": VideoResult,
        "page": PageResult,
        "requests": RequestResult,
        "model": Model,
    }

    name: str
    """Name of the flow."""
    cc: str
    """Algorithm of the flow."""
    start_s: float
    """Start time."""
    goodput_bps: float
    """Unique payload at the receiver over the flow's own life. That is from its start (or the end of warm-up) to its completion."""
    throughput_bps: float
    """Bytes on the wire at the receiver, duplicates included."""
    rtt_ms: Distribution | None
    """RTT of each ACK at the sender; None where none was measured."""
    jitter_ms: float
    """Mean of |RTT(i) − RTT(i−1)|."""
    jitter_rfc3550_ms: float
    """Interarrival jitter after RFC 3550 §6.4.1, at the end."""
    retransmit_ratio: float
    """Ratio of retransmitted to sent segments."""
    drop_ratio: float | None
    """This flow's drops at the bottleneck over its arrivals there; None where the kernel's own queue does not distinguish flows."""
    rto: int
    """Retransmission timeouts."""
    spurious_retransmits: int
    """Retransmissions of data that had arrived."""
    bytes: int
    """Unique payload bytes at the receiver."""
    fct_s: float | None
    """Time from the SYN to the last payload byte at the receiver (mean over responses for request/response); None while unfinished.
    """
    call: CallResult | None
    """The call's figures; None for other traffic."""
    video: VideoResult | None
    """The video's figures; None for other traffic."""
    page: PageResult | None
    """The page loads' figures; None for other traffic."""
    requests: RequestResult | None
    """The responses' figures; None without a deadline."""
    state_s: Record
    """Time spent in each state."""
    model: Model
    """The model at the end."""


class Run(Record):
    """Figures of one run. The caller that holds `scenario` and `expect` fills them in."""

    __slots__ = ()
    _kinds: ClassVar[dict[str, type[Any]]] = {
        "bottleneck": Bottleneck,
        "up": UpLink,
        "flows": Flow,
        "probe": ProbeResult,
        "groups": Group,
        "expect": Expectation,
    }

    schema: int
    """Number of this schema."""
    scenario: Record
    """The scenario as resolved, re-runnable."""
    on: str
    """Backend: `sim`."""
    seed: int
    """The seed of this run."""
    version: str
    """Version of bbrlab."""
    wall_s: float
    """Wall-clock time of the run, seconds. The only figure that differs between equal runs."""
    events: int
    """Events handled by the simulator."""
    packets: int
    """Packets delivered over the bottleneck."""
    bottleneck: Bottleneck
    """The bottleneck's figures."""
    up: UpLink | None
    """Figures of the reverse direction's link; None without one."""
    interval_s: list[float]
    """Interval over which groups and totals are counted, seconds since the run's start. It begins at the first flow's start, or the
    end of warm-up if later. It ends with the run, or at the last completion if every flow completed.
    """
    jain: float
    """Jain's fairness index of the flows' goodput, each over its own life."""
    convergence_s: float | None
    """First second from which Jain's index over 1-s bins stays at or above 0.95, ProbeRTT seconds excluded. None if never, or if no
    whole second has two flows. A flow counts in each whole second of its life.
    """
    flows: list[Flow]
    """One entry per flow."""
    probe: ProbeResult | None
    """The lag probe's figures; None without one."""
    groups: list[Group]
    """One entry per algorithm."""
    expect: list[Expectation]
    """Expectations, with verdicts."""
    provenance: Record | None
    """Details of the backend and the machine, for backends that run in real time."""
