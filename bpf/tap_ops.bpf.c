// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * The tap for kernels that refuse programs at their functions: congestion controls that call the kernel's own BBR and CUBIC, and
 * record the inputs and the decisions. Linux 6.10 to 7.0, where the module has no types of its own for a socket.
 */
#include "record.h"

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

/* Reserves a record with the inputs of the call; NULL if the ring is full. */
static __always_inline struct tap_record *begin(struct sock *sk, __u64 kind, __u64 a, __u64 b)
{
	struct tap_record *r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);

	if (r)
		note_inputs(r, sk, kind, a, b);
	else
		count_lost();
	return r;
}

static __always_inline void end(struct sock *sk, struct tap_record *r, __u64 answer)
{
	note_results(r, sk, answer);
	bpf_ringbuf_submit(r, 0);
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
	struct rate_sample *rs = (struct rate_sample *)ctx[3];
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
	struct ack_sample *sample = (struct ack_sample *)ctx[1];
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
