// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * A congestion control that lets the window grow and says what a loss leaves of it, while the kernel reduces, paces and repairs:
 * CUBIC and Reno.
 * Every decision is core's Rust; no rule of an algorithm is written here.
 *
 * -DALGORITHM=NAME   the algorithm, as the shim names its functions
 */
#define HOSTED
#include "socket.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

EVENT(ack)
EVENT(ca_state)
EVENT(rto)
EVENT(undo)
EVENT(tx_start)
EVENT(mss)
EVENT(max_rate)
EVENT(rtt)
EVENT(threshold)

static __always_inline void one_ack(struct flow *flow)
{
	ack(flow);
}

static __always_inline void read_for(struct flow *flow, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct input *in = &flow->in;
	__u32 idle;

	read_socket(flow, sk);
	no_sample(flow);
	in->packets_out = tp->packets_out;
	in->cwnd = tp->snd_cwnd;
	in->cwnd_count = tp->snd_cwnd_cnt;
	in->ssthresh = tp->snd_ssthresh;
	in->una = tp->snd_una;
	in->next = tp->snd_nxt;
	in->pacing_rate = sk->sk_pacing_rate;
	idle = (__u32)in->tick - tp->lsndtime;
	in->idle_ns = (__s32)idle > 0 ? idle * settings.tick_ns : 0;
	if (sk->sk_pacing_status != PACING_NONE)
		in->marks |= PACED;
	if (flow->in.mss != tp->mss_cache) {
		flow->in.mss = tp->mss_cache;
		CALL(mss, MSS);
	}
}

static __always_inline void write_window(struct flow *flow, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	tp->snd_cwnd = flow->out.cwnd;
	tp->snd_cwnd_cnt = flow->out.cwnd_count;
	tp->snd_ssthresh = flow->out.ssthresh;
}

/* Linux tcp_is_cwnd_limited. */
static __always_inline bool is_cwnd_limited(struct tcp_sock *tp)
{
	if (READ_BITS(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

SEC("struct_ops") void cc_init(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow = flow_of(sk, BPF_SK_STORAGE_GET_F_CREATE);

	if (!flow)
		return;
	begin(flow);
	read_beginning(flow, sk);
	CALL(init, INIT);
}

SEC("struct_ops") void cc_release(__u64 *ctx)
{
	bpf_sk_storage_delete(&flows, (struct sock *)ctx[0]);
}

SEC("struct_ops") void cc_cong_avoid(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_for(flow, sk);
	flow->in.rs_acked_sacked = (__u32)ctx[2];
	flow->in.marks |= MAY_RAISE;
	if (is_cwnd_limited(tp))
		flow->in.marks |= CWND_LIMITED;
	CALL(ack, ACK);
	write_window(flow, sk);
}

SEC("struct_ops") void cc_pkts_acked(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct ack_sample *sample = (const struct ack_sample *)ctx[1];
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_for(flow, sk);
	flow->in.rs_rtt_us = sample->rtt_us;
	flow->in.rs_acked_sacked = sample->pkts_acked;
	CALL(rtt, RTT);
	write_window(flow, sk);
}

static __always_inline void restart_from_idle(struct sock *sk)
{
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_for(flow, sk);
	CALL(tx_start, TX_START);
}

SEC("struct_ops") void cc_cwnd_event(__u64 *ctx)
{
	if ((__u32)ctx[1] == CA_EVENT_TX_START)
		restart_from_idle((struct sock *)ctx[0]);
}

SEC("struct_ops") void cc_cwnd_event_tx_start(__u64 *ctx)
{
	restart_from_idle((struct sock *)ctx[0]);
}

SEC("struct_ops") void cc_set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow;

	if ((__u8)ctx[1] != LOSS)
		return;
	flow = flow_of(sk, 0);
	if (!flow)
		return;
	read_for(flow, sk);
	CALL(rto, RTO);
}

SEC("struct_ops") __u32 cc_ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return ((struct tcp_sock *)sk)->snd_ssthresh;
	read_for(flow, sk);
	CALL(threshold, THRESHOLD);
	return READ_HERE(flow->out.ssthresh);
}

/* Linux tcp_reno_undo_cwnd. */
SEC("struct_ops") __u32 cc_undo_cwnd(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

SEC(".struct_ops.link") struct tcp_congestion_ops cc = {
	.name = "bbrlab",
	.flags = NON_RESTRICTED,
	.init = (void *)cc_init,
	.release = (void *)cc_release,
	.cong_avoid = (void *)cc_cong_avoid,
	.pkts_acked = (void *)cc_pkts_acked,
	.cwnd_event = (void *)cc_cwnd_event,
	.cwnd_event_tx_start = (void *)cc_cwnd_event_tx_start,
	.set_state = (void *)cc_set_state,
	.ssthresh = (void *)cc_ssthresh,
	.undo_cwnd = (void *)cc_undo_cwnd,
};

#include "trial.h"
