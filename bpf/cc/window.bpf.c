// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * A congestion control that lets the window grow and says what a loss leaves of it, while the kernel reduces, paces and repairs:
 * CUBIC, Reno and DCTCP.
 * Every decision is core's Rust; no rule of an algorithm is written here.
 *
 * -DALGORITHM=NAME   the algorithm, as the shim names its functions
 * -DECN              it counts marks, and its receiver echoes each (RFC 8257 section 3.2)
 */
#define HOSTED
#include "socket.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The state whose beginning the algorithm is told. */
#ifdef ECN
#define TOLD_STATE RECOVERY
#else
#define TOLD_STATE LOSS
#endif

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
	read_sequence(flow, tp);
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

#ifdef ECN
/* Linux SOL_TCP, TCP_CONGESTION. */
enum { SOL_TCP = 6, TCP_CONGESTION = 13 };
/* The congestion control of a connection without ECN: it behaves as DCTCP would, and sets no ECT. */
static char fallback[] = "reno";
#endif

SEC("struct_ops") void cc_init(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow = flow_of(sk, BPF_SK_STORAGE_GET_F_CREATE);

	if (!flow)
		return;
#ifdef ECN
	if (!(((struct tcp_sock *)sk)->ecn_flags & (ECN_CLASSIC | ECN_ACCURATE))) {
		/* The other end has no ECN. The call releases the flow. */
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
		return;
	}
#endif
	begin(flow);
	read_beginning(flow, sk);
#ifdef ECN
	flow->seen_marks = ((struct tcp_sock *)sk)->delivered_ce;
	flow->prior_rcv_nxt = ((struct tcp_sock *)sk)->rcv_nxt;
	flow->was_marked = 0;
#endif
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

#ifdef ECN
SEC("struct_ops") void cc_in_ack_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_for(flow, sk);
	read_marks(flow, (struct tcp_sock *)sk);
	CALL(rtt, RTT);
}

/* The receiver's part: every ACK says whether the packets that it acknowledges were marked. */
static __always_inline void echo(struct tcp_sock *tp, __u32 is_marked)
{
	if (is_marked)
		tp->ecn_flags |= ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~ECN_DEMAND_CWR;
}

/* Linux dctcp_ece_ack_update. */
static __always_inline void on_received(struct sock *sk, __u32 is_marked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	if (flow->was_marked != is_marked) {
		if (connection->icsk_ack.pending & ACK_TIMER) {
			echo(tp, flow->was_marked);
			bpf_tcp_send_ack(tp, flow->prior_rcv_nxt);
		}
		connection->icsk_ack.pending |= ACK_NOW;
	}
	flow->prior_rcv_nxt = tp->rcv_nxt;
	flow->was_marked = is_marked;
	echo(tp, is_marked);
}
#else
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
#endif

static __always_inline void restart_from_idle(struct sock *sk)
{
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_for(flow, sk);
	CALL(tx_start, TX_START);
}

#ifdef ECN
/* The first time-out of an episode. */
static __always_inline void on_timeout(struct sock *sk)
{
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_for(flow, sk);
	CALL(rto, RTO);
	write_window(flow, sk);
}
#endif

SEC("struct_ops") void cc_cwnd_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	switch ((__u32)ctx[1]) {
	case CA_EVENT_TX_START: restart_from_idle(sk); break;
#ifdef ECN
	case CA_EVENT_LOSS: on_timeout(sk); break;
	case CA_EVENT_ECN_NO_CE: on_received(sk, 0); break;
	case CA_EVENT_ECN_IS_CE: on_received(sk, 1); break;
#endif
	}
}

SEC("struct_ops") void cc_cwnd_event_tx_start(__u64 *ctx)
{
	restart_from_idle((struct sock *)ctx[0]);
}

SEC("struct_ops") void cc_set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 new = (__u8)ctx[1];
	struct flow *flow;

	if (new != TOLD_STATE)
		return;
	flow = flow_of(sk, 0);
	if (!flow)
		return;
	read_for(flow, sk);
#ifdef ECN
	flow->in.old_ca_state = flow->in.ca_state;
	flow->in.ca_state = new;
	CALL(ca_state, CA_STATE);
	write_window(flow, sk);
#else
	CALL(rto, RTO);
#endif
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
#ifdef ECN
	.flags = NON_RESTRICTED | NEEDS_ECN,
	.in_ack_event = (void *)cc_in_ack_event,
#else
	.flags = NON_RESTRICTED,
	.pkts_acked = (void *)cc_pkts_acked,
#endif
	.init = (void *)cc_init,
	.release = (void *)cc_release,
	.cong_avoid = (void *)cc_cong_avoid,
	.cwnd_event = (void *)cc_cwnd_event,
	.cwnd_event_tx_start = (void *)cc_cwnd_event_tx_start,
	.set_state = (void *)cc_set_state,
	.ssthresh = (void *)cc_ssthresh,
	.undo_cwnd = (void *)cc_undo_cwnd,
};

#include "trial.h"
