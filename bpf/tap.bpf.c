// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * The tap: congestion controls that call the kernel's own BBR and CUBIC, and record their inputs and decisions.
 * A record lost to a full ring is counted, and leaves a gap in the sequence numbers.
 */
#include "kernel.h"
#include "tap.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern __u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern __u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern __u32 bbr_ssthresh(struct sock *sk) __ksym;
extern __u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, __u8 new_state) __ksym;

extern void cubictcp_init(struct sock *sk) __ksym;
extern __u32 cubictcp_recalc_ssthresh(struct sock *sk) __ksym;
extern void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern void cubictcp_state(struct sock *sk, __u8 new_state) __ksym;
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tap_counters);
} counters SEC(".maps");

/* Reserves a record with its kind, socket, number and the inputs of the call; NULL if the ring is full. */
static __always_inline struct tap_record *begin(struct sock *sk, __u64 kind, __u64 a, __u64 b)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tap_counters *count;
	struct tap_record *r;
	__u32 zero = 0;
	__u64 number;

	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	number = __sync_fetch_and_add(&count->calls, 1);
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		__sync_fetch_and_add(&count->lost, 1);
		return 0;
	}
	r->socket = (__u64)sk;
	r->number = number;
	r->f[TAP_KIND] = kind;
	r->f[TAP_ARG_A] = a;
	r->f[TAP_ARG_B] = b;
	r->f[TAP_JIFFIES] = bpf_jiffies64();
	r->f[TAP_CLOCK_NS] = tp->tcp_clock_cache;
	r->f[TAP_WSTAMP_NS] = tp->tcp_wstamp_ns;
	r->f[TAP_MSTAMP_US] = tp->tcp_mstamp;
	r->f[TAP_DELIVERED_US] = tp->delivered_mstamp;
	r->f[TAP_DELIVERED] = tp->delivered;
	r->f[TAP_LOST] = tp->lost;
	r->f[TAP_APP_LIMITED] = tp->app_limited;
	r->f[TAP_PACKETS_OUT] = tp->packets_out;
	r->f[TAP_SACKED_OUT] = tp->sacked_out;
	r->f[TAP_LOST_OUT] = tp->lost_out;
	r->f[TAP_RETRANS_OUT] = tp->retrans_out;
	r->f[TAP_MAX_PACKETS_OUT] = tp->max_packets_out;
	r->f[TAP_MSS] = tp->mss_cache;
	r->f[TAP_SRTT8_US] = tp->srtt_us;
	r->f[TAP_MIN_RTT_US] = tp->rtt_min.s[0].v;
	r->f[TAP_CA_STATE] = READ_BITS(icsk, icsk_ca_state);
	r->f[TAP_CWND_LIMITED] = READ_BITS(tp, is_cwnd_limited);
	r->f[TAP_CWND] = tp->snd_cwnd;
	r->f[TAP_CWND_CNT] = tp->snd_cwnd_cnt;
	r->f[TAP_CWND_CLAMP] = tp->snd_cwnd_clamp;
	r->f[TAP_SSTHRESH] = tp->snd_ssthresh;
	r->f[TAP_PRIOR_CWND] = tp->prior_cwnd;
	r->f[TAP_PRIOR_SSTHRESH] = tp->prior_ssthresh;
	r->f[TAP_PRR_DELIVERED] = tp->prr_delivered;
	r->f[TAP_PRR_OUT] = tp->prr_out;
	r->f[TAP_UNA] = tp->snd_una;
	r->f[TAP_NEXT] = tp->snd_nxt;
	r->f[TAP_LAST_SEND] = tp->lsndtime;
	r->f[TAP_PACING_RATE] = sk->sk_pacing_rate;
	r->f[TAP_PACING_MAX] = sk->sk_max_pacing_rate;
	r->f[TAP_PACING_STATUS] = sk->sk_pacing_status;
	r->f[TAP_PACING_SHIFT] = sk->sk_pacing_shift;
	r->f[TAP_GSO_MAX] = sk->sk_gso_max_size;
	r->f[TAP_PORT] = sk->__sk_common.skc_num;
#pragma unroll
	for (int i = TAP_SAMPLE; i < TAP_AFTER; i++)
		r->f[i] = 0;
	return r;
}

/* Records the state after the call, and its return value. */
static __always_inline void end(struct sock *sk, struct tap_record *r, __u64 answer)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	r->f[TAP_ANSWER] = answer;
	r->f[TAP_JIFFIES_AFTER] = bpf_jiffies64();
	r->f[TAP_CWND_AFTER] = tp->snd_cwnd;
	r->f[TAP_CWND_CNT_AFTER] = tp->snd_cwnd_cnt;
	r->f[TAP_SSTHRESH_AFTER] = tp->snd_ssthresh;
	r->f[TAP_APP_LIMITED_AFTER] = tp->app_limited;
	r->f[TAP_PACING_RATE_AFTER] = sk->sk_pacing_rate;
	r->f[TAP_PACING_STATUS_AFTER] = sk->sk_pacing_status;
#pragma unroll
	for (int i = 0; i < TAP_PRIVATE_WORDS; i++)
		r->f[TAP_PRIVATE + i] = icsk->icsk_ca_priv[i];
	bpf_ringbuf_submit(r, 0);
}

/* Records the kernel's rate sample of this ACK. */
static __always_inline void note_sample(struct tap_record *r, const struct rate_sample *rs)
{
	r->f[TAP_RS_PRIOR_MSTAMP] = rs->prior_mstamp;
	r->f[TAP_RS_PRIOR_DELIVERED] = rs->prior_delivered;
	r->f[TAP_RS_DELIVERED] = (__s64)rs->delivered;
	r->f[TAP_RS_INTERVAL_US] = rs->interval_us;
	r->f[TAP_RS_SND_INTERVAL_US] = rs->snd_interval_us;
	r->f[TAP_RS_RCV_INTERVAL_US] = rs->rcv_interval_us;
	r->f[TAP_RS_RTT_US] = rs->rtt_us;
	r->f[TAP_RS_LOSSES] = (__s64)rs->losses;
	r->f[TAP_RS_ACKED_SACKED] = rs->acked_sacked;
	r->f[TAP_RS_PRIOR_IN_FLIGHT] = rs->prior_in_flight;
	r->f[TAP_RS_LAST_END_SEQ] = rs->last_end_seq;
	r->f[TAP_RS_FLAGS] = rs->is_app_limited | rs->is_retrans << 1 | rs->is_ack_delayed << 2;
}

/* Hooks without and with a return value: the kernel's own function runs between the two halves of a record. */
#define TAPPED(kind, a, b, call)                                   \
	do {                                                       \
		struct tap_record *r = begin(sk, kind, a, b);      \
		call;                                              \
		if (r)                                             \
			end(sk, r, 0);                             \
	} while (0)
#define ANSWERED(kind, call)                                       \
	do {                                                       \
		struct tap_record *r = begin(sk, kind, 0, 0);      \
		__u32 answer = call;                               \
		if (r)                                             \
			end(sk, r, answer);                        \
		return answer;                                     \
	} while (0)

SEC("struct_ops") void tap_bbr_init(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	TAPPED(TAP_INIT, TAP_BBR1, 0, bbr_init(sk));
}

SEC("struct_ops") void tap_bbr_cong_control(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct rate_sample *rs = (const struct rate_sample *)ctx[3];
	__u32 ack = ctx[1];
	int flag = ctx[2];
	struct tap_record *r = begin(sk, TAP_CONG_CONTROL, ack, (__u32)flag);

	if (r)
		note_sample(r, rs);
	bbr_main(sk, ack, flag, rs);
	if (r)
		end(sk, r, bbr_min_tso_segs(sk));
}

SEC("struct_ops") void tap_bbr_cwnd_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 event = ctx[1];

	TAPPED(TAP_CWND_EVENT, event, 0, bbr_cwnd_event(sk, event));
}

SEC("struct_ops") void tap_bbr_set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u8 state = ctx[1];

	TAPPED(TAP_SET_STATE, state, 0, bbr_set_state(sk, state));
}

SEC("struct_ops") __u32 tap_bbr_ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	ANSWERED(TAP_SSTHRESH_CALL, bbr_ssthresh(sk));
}

SEC("struct_ops") __u32 tap_bbr_undo_cwnd(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	ANSWERED(TAP_UNDO, bbr_undo_cwnd(sk));
}

/* Called on every transmission, but depends on the pacing rate alone: each ACK's record contains its result. */
SEC("struct_ops") __u32 tap_bbr_min_tso_segs(__u64 *ctx)
{
	return bbr_min_tso_segs((struct sock *)ctx[0]);
}

SEC("struct_ops") __u32 tap_bbr_sndbuf_expand(__u64 *ctx)
{
	return bbr_sndbuf_expand((struct sock *)ctx[0]);
}

SEC(".struct_ops.link") struct tcp_congestion_ops tap_bbr = {
	.name = "bbr_tap",
	.init = (void *)tap_bbr_init,
	.cong_control = (void *)tap_bbr_cong_control,
	.cwnd_event = (void *)tap_bbr_cwnd_event,
	.set_state = (void *)tap_bbr_set_state,
	.ssthresh = (void *)tap_bbr_ssthresh,
	.undo_cwnd = (void *)tap_bbr_undo_cwnd,
	.min_tso_segs = (void *)tap_bbr_min_tso_segs,
	.sndbuf_expand = (void *)tap_bbr_sndbuf_expand,
};

SEC("struct_ops") void tap_cubic_init(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	TAPPED(TAP_INIT, TAP_CUBIC, 0, cubictcp_init(sk));
}

SEC("struct_ops") void tap_cubic_cong_avoid(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 ack = ctx[1], acked = ctx[2];

	TAPPED(TAP_CONG_AVOID, ack, acked, cubictcp_cong_avoid(sk, ack, acked));
}

SEC("struct_ops") void tap_cubic_pkts_acked(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct ack_sample *sample = (const struct ack_sample *)ctx[1];
	struct tap_record *r = begin(sk, TAP_PKTS_ACKED, 0, 0);

	if (r) {
		r->f[TAP_RS_RTT_US] = (__s64)sample->rtt_us;
		r->f[TAP_RS_ACKED_SACKED] = sample->pkts_acked;
		r->f[TAP_RS_PRIOR_IN_FLIGHT] = sample->in_flight;
	}
	cubictcp_acked(sk, sample);
	if (r)
		end(sk, r, 0);
}

SEC("struct_ops") void tap_cubic_cwnd_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 event = ctx[1];

	TAPPED(TAP_CWND_EVENT, event, 0, cubictcp_cwnd_event(sk, event));
}

SEC("struct_ops") void tap_cubic_set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u8 state = ctx[1];

	TAPPED(TAP_SET_STATE, state, 0, cubictcp_state(sk, state));
}

SEC("struct_ops") __u32 tap_cubic_ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	ANSWERED(TAP_SSTHRESH_CALL, cubictcp_recalc_ssthresh(sk));
}

SEC("struct_ops") __u32 tap_cubic_undo_cwnd(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	ANSWERED(TAP_UNDO, tcp_reno_undo_cwnd(sk));
}

SEC(".struct_ops.link") struct tcp_congestion_ops tap_cubic = {
	.name = "cubic_tap",
	.init = (void *)tap_cubic_init,
	.cong_avoid = (void *)tap_cubic_cong_avoid,
	.pkts_acked = (void *)tap_cubic_pkts_acked,
	.cwnd_event = (void *)tap_cubic_cwnd_event,
	.set_state = (void *)tap_cubic_set_state,
	.ssthresh = (void *)tap_cubic_ssthresh,
	.undo_cwnd = (void *)tap_cubic_undo_cwnd,
};
