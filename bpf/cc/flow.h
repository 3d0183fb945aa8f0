/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * One connection, as core's Rust sees it: what was read of the socket, what the algorithm wants, and the algorithm's own memory.
 * `shim/src/lib.rs` and `shim/src/telemetry.rs` hold the same structures.
 */
#ifndef BBRLAB_FLOW_H
#define BBRLAB_FLOW_H

#include "../kernel.h"

/* 64-bit words of a recorded call. */
#define CALL_WORDS 52

/* Parameters of an algorithm. Source: core MAX_PARAMS. */
#define PARAMETERS 64

/* Bits of `struct input.marks`. */
enum {
	APP_LIMITED = 1,
	ADVANCED = 1 << 1,
	CWND_LIMITED = 1 << 2,
	MAY_RAISE = 1 << 3,
	PACED = 1 << 4,
	FIRST_TIMEOUT = 1 << 5,
	ECE = 1 << 6,
	RETRANSMISSION = 1 << 7,
};

/* What an ACK reads stands first, so that it touches few lines of the cache. */
struct input {
	__u64 now_ns, tick, departure_ns, delivered_us, delivered, lost, srtt_us, in_flight;
	__s64 rs_delivered, rs_interval_us;
	__u64 rs_prior_delivered;
	__s64 rs_rtt_us;
	__u64 rs_losses, rs_acked_sacked, rs_prior_in_flight, rs_marks;
	__u32 ca_state, marks, mss, marked_since;
	__u64 max_rate, tx_in_flight, lost_since;
	__u64 min_rtt_us, idle_ns, rto_ns, una, next, seed, volume, seq, rounds, span_us, pacing_rate;
	__u32 old_ca_state, packets_out, cwnd, cwnd_clamp, cwnd_count, ssthresh, packets, newest_end;
};

struct output {
	__u64 pacing_rate;
	__u32 cwnd, min_burst, mark_app_limited, state, cwnd_count, ssthresh;
};

struct telemetry {
	__u64 bw, min_rtt_us, round_count, bw_shortterm, inflight_shortterm, inflight_longterm;
	__u32 state, pacing_gain, cwnd_gain, ssthresh, extra_acked, marks;
};

/* Events by their numbers, as `trial.h` takes them and a record of a call names them. */
enum event {
	INIT,
	ACK,
	TX_START,
	RTO,
	CA_STATE,
	UNDO,
	MSS,
	MAX_RATE,
	TLP_ACK,
	TLP_RECOVERY,
	LOST,
	RTT,
	THRESHOLD,
};

/* One call of the algorithm: what it was told, and what it left. `flow` counts connections, `number` calls, lost records included. */
struct call {
	__u64 flow, number, event;
	struct input in;
	struct output out;
	struct telemetry model;
};
_Static_assert(sizeof(struct call) == 8 * CALL_WORDS, "crates/live/src/oracle/calls.rs reads so many words");

/* What was delivered, lost and in flight when an ACK came: see marks.h. */
struct ack_mark {
	__u32 delivered, lost, in_flight, next;
};

/* A power of two, so that a mask keeps an index inside. */
#define MARKS 64

/* FLOW_BYTES is what the Rust says of its own part (`NAME_bytes`). */
struct flow {
	struct output out;
	struct input in;
	__u64 rest[(FLOW_BYTES - sizeof(struct input) - sizeof(struct output)) / 8];
	/* The volume counters of an algorithm that counts bytes, and where the socket's counts stood then. */
	__u64 delivered_bytes, lost_bytes;
	__u32 seen_delivered, seen_lost;
	/* Which connection of this program it is, for recordings. */
	__u64 number;
	/* `found` is the mark that the last ACK's packet was looked up by. */
	__u32 newest, found, delivered_at_mark, snd_nxt, is_retrans;
	/* Where the socket's count of marked packets stood; of a receiver, the sequence it had reached and whether that packet was marked. */
	__u32 seen_marks, prior_rcv_nxt, was_marked;
	/*
	 * Our own application-limited mark, for kernels on which a program may not write tp->app_limited: packets sent while `delivered` was
	 * in this range are application-limited. `limited_to` is 0 without a mark.
	 */
	__u32 limited_from, limited_to;
	struct ack_mark marks[MARKS];
};

/* One connection in the answer of the iterator. */
struct connection {
	__u16 family, local_port, remote_port, tcp_state;
	__u32 local[4], remote[4];
	__u32 cwnd, in_flight, srtt_us, mss;
	__u64 pacing_rate, delivered, lost;
	struct telemetry model;
};
_Static_assert(sizeof(struct connection) == 152, "crates/host/src/telemetry.rs reads so many bytes");

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
/* A function of the algorithm that this object holds. */
#define FACE(event) JOIN(ALGORITHM, event)

/*
 * An event as a function that the verifier checks by itself, however often it is called; all it may assume is a flow.
 * The kernel's limit of a million instructions then holds for each event, not for all that one hook does.
 */
#define EVENT(event)                                                   \
	extern void FACE(event)(struct flow *);                        \
	__attribute__((noinline)) int event(struct flow *flow)         \
	{                                                              \
		if (!flow)                                             \
			return 0;                                      \
		FACE(event)(flow);                                     \
		return 0;                                              \
	}

/*
 * A value read here. Otherwise the compiler merges it with another branch's read through another kind of pointer, which the verifier
 * does not take.
 */
#define READ_HERE(value)                             \
	({                                           \
		__u32 read = (value);                \
		asm volatile("" : "+r"(read));       \
		read;                                \
	})

/*
 * Set before the program is loaded, as a map of their own: the algorithm's parameters, how long a tick of the kernel's clock is, and whether calls
 * are recorded; where they are not, the verifier leaves that code out.
 */
struct settings {
	__u32 parameters[PARAMETERS];
	__u64 tick_ns, records;
	/* Before Linux 6.10 cong_control has two arguments; before 6.4 no program may write tp->app_limited. */
	__u64 two_arguments, own_app_limited;
};

const volatile struct settings settings SEC(".rodata.settings") = { .tick_ns = 4000000 };

#endif
