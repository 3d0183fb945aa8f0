/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * What every algorithm's program does with a socket: its connection in sk_storage, reading it, and telling of it.
 */
#ifndef BBRLAB_SOCKET_H
#define BBRLAB_SOCKET_H

#include "flow.h"

/* Linux TCP_INFINITE_SSTHRESH, TCP_CONG_NON_RESTRICTED, SK_PACING_NONE and SK_PACING_NEEDED, TCP_CA_CWR, _Recovery and _Loss, AF_INET6. */
#define NO_SSTHRESH 0x7fffffff
#define NON_RESTRICTED 1
enum { PACING_NONE, PACING_NEEDED };
enum { CWR = 2, RECOVERY = 3, LOSS = 4 };
enum { INET6 = 10 };
/* Linux CA_ACK_ECE, what in_ack_event is told. */
#define ACK_ECE 4
/*
 * Linux TCP_CONG_NEEDS_ECN, and from 7.0 on NEEDS_ACCECN, ECT_1_NEGOTIATION and NO_FALLBACK_RFC3168; which kernel knows the last three
 * is the loader's to ask.
 */
enum { NEEDS_ECN = 1 << 1, NEEDS_ACCECN = 1 << 2, ECT_1_NEGOTIATION = 1 << 3, NO_FALLBACK_RFC3168 = 1 << 4 };
/* Linux TCP_ECN_MODE_RFC3168 (TCP_ECN_OK), TCP_ECN_DEMAND_CWR and TCP_ECN_MODE_ACCECN; ICSK_ACK_TIMER and ICSK_ACK_NOW. */
enum { ECN_CLASSIC = 1, ECN_DEMAND_CWR = 1 << 2, ECN_ACCURATE = 1 << 4 };
enum { ACK_TIMER = 2, ACK_NOW = 16 };
/* No RTT yet: tcp_min_rtt. */
#define NO_RTT 0xffffffffu

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Connections begun, hooks called on a connection that has no memory of ours; calls, and those for which the ring had no room. */
__u64 begun = 0, without_memory = 0, calls_made = 0, calls_lost = 0;

/* For recordings; not made where there is none. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} calls SEC(".maps");

extern void FACE(init)(struct flow *, const volatile __u32 *);
__attribute__((noinline)) int init(struct flow *flow)
{
	const volatile __u32 *parameters = settings.parameters;

	if (!flow)
		return 0;
	/* The compiler, to which a constant is what the source says, must not see where they are from. */
	asm volatile("" : "+r"(parameters));
	FACE(init)(flow, parameters);
	return 0;
}

extern void FACE(telemetry)(const struct flow *, struct telemetry *);
__attribute__((noinline)) int tell(struct flow *flow, struct telemetry *into)
{
	if (!flow || !into)
		return 0;
	FACE(telemetry)(flow, into);
	return 0;
}

__attribute__((noinline)) int record(struct flow *flow, __u32 event)
{
	struct telemetry model = {};
	struct call *call;
	__u64 number;

	if (!flow || !settings.records)
		return 0;
	number = __sync_fetch_and_add(&calls_made, 1);
	call = bpf_ringbuf_reserve(&calls, sizeof(*call), 0);
	if (!call) {
		__sync_fetch_and_add(&calls_lost, 1);
		return 0;
	}
	tell(flow, &model);
	call->flow = flow->number;
	call->number = number;
	call->event = event;
	call->in = flow->in;
	call->out = flow->out;
	call->model = model;
	bpf_ringbuf_submit(call, 0);
	return 0;
}

/* An event of a socket's, recorded if that was asked for. */
#define CALL(name, event)                       \
	do {                                    \
		name(flow);                     \
		if (settings.records)           \
			record(flow, event);    \
	} while (0)

static __always_inline struct flow *flow_of(struct sock *sk, __u64 flags)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, flags);

	if (!flow)
		without_memory++;
	return flow;
}

static __always_inline __u32 packets_in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* True until more than `limited_to` is delivered, as the kernel's own mark: Linux tcp_rate_gen. */
static __always_inline bool own_mark_stands(const struct flow *flow, __u32 delivered)
{
	return settings.own_app_limited && flow->limited_to && (__s32)(flow->limited_to - delivered) >= 0;
}

/* What every event may want to know; what only some do, they read themselves. */
static __always_inline void read_socket(struct flow *flow, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct input *in = &flow->in;

	in->now_ns = tp->tcp_clock_cache;
	in->tick = bpf_jiffies64();
	in->departure_ns = tp->tcp_wstamp_ns;
	in->delivered_us = tp->delivered_mstamp;
	in->srtt_us = tp->srtt_us >> 3;
	in->ca_state = READ_BITS((struct inet_connection_sock *)sk, icsk_ca_state);
	in->max_rate = sk->sk_max_pacing_rate;
	in->marks = tp->app_limited || own_mark_stands(flow, tp->delivered) ? APP_LIMITED : 0;
	in->delivered = tp->delivered;
	in->lost = tp->lost;
	in->in_flight = packets_in_flight(tp);
}

/* Of an event that no ACK brings. */
static __always_inline void no_sample(struct flow *flow)
{
	struct input *in = &flow->in;

	in->rs_delivered = -1;
	in->rs_interval_us = -1;
	in->rs_prior_delivered = in->delivered;
	in->rs_rtt_us = -1;
	in->rs_losses = 0;
	in->rs_acked_sacked = 0;
	in->rs_prior_in_flight = 0;
	in->rs_marks = 0;
}

/* Bytes acknowledged and sent, which do not wrap as sequence numbers do. */
static __always_inline void read_sequence(struct flow *flow, struct tcp_sock *tp)
{
	flow->in.una = tp->bytes_acked;
	flow->in.next = flow->in.una + (__u32)(tp->snd_nxt - tp->snd_una);
}

/* Linux tcp_is_cwnd_limited. */
static __always_inline bool is_cwnd_limited(struct tcp_sock *tp)
{
	if (READ_BITS(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Packets reported as marked since the last call. */
static __always_inline void read_marks(struct flow *flow, struct tcp_sock *tp)
{
	__u32 marks = tp->delivered_ce;

	flow->in.marked_since = marks - flow->seen_marks;
	flow->seen_marks = marks;
}

/* A connection begins with memory that may be another algorithm's. */
static __always_inline void begin(struct flow *flow)
{
	flow->number = __sync_fetch_and_add(&begun, 1);
	flow->limited_from = flow->limited_to = 0;
}

static __always_inline void read_beginning(struct flow *flow, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct input *in = &flow->in;
	__u32 min_rtt_us = tp->rtt_min.s[0].v;

	read_socket(flow, sk);
	no_sample(flow);
	in->mss = tp->mss_cache;
	in->cwnd = tp->snd_cwnd;
	in->cwnd_clamp = tp->snd_cwnd_clamp;
	in->min_rtt_us = min_rtt_us == NO_RTT ? 0 : min_rtt_us;
}

/* What is told of a connection to whoever reads the pinned iterator: those of the reader's network namespace. */
SEC("iter/tcp") int connections(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct connection row = {};
	struct tcp_sock *tp;
	struct flow *flow;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	flow = bpf_sk_storage_get(&flows, tp, 0, 0);
	if (!flow)
		return 0;
	row.family = common->skc_family;
	row.tcp_state = common->skc_state;
	row.local_port = common->skc_num;
	row.remote_port = __builtin_bswap16(common->skc_dport);
	if (row.family == INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			row.local[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			row.remote[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		row.local[0] = common->skc_rcv_saddr;
		row.remote[0] = common->skc_daddr;
	}
	row.cwnd = tp->snd_cwnd;
	row.in_flight = packets_in_flight(tp);
	row.srtt_us = tp->srtt_us >> 3;
	row.mss = tp->mss_cache;
	row.pacing_rate = ((struct sock *)tp)->sk_pacing_rate;
	row.delivered = tp->delivered;
	row.lost = tp->lost;
	tell(flow, &row.model);
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

#endif
