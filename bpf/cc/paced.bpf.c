// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * A congestion control that decides on window and pacing rate: BBR in all its versions, Prague, and Davis on the window alone.
 * Every decision is core's Rust; no rule of an algorithm is written here.
 *
 * -DALGORITHM=NAME   the algorithm, as the shim names its functions
 * -DV1               its ACK comes in BBRv1's steps
 * -DV3               in BBRv3's, and it wants to know each ACK's flight (also BBRv2)
 * -DPARTS            the last two of those steps come in parts, for the verifier
 * -DBYTES            it counts bytes, which a stock kernel does not: its packets times the present size of one
 * -DUNPACED          it sets no pace
 * -DECN              it counts marks with accurate ECN, and keeps ssthresh itself
 */
#include "socket.h"
#include "marks.h"
#include "states.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

EVENT(ca_state)
EVENT(rto)
EVENT(undo)
EVENT(tx_start)
EVENT(mss)
EVENT(max_rate)

/* An ACK in the algorithm's own steps. */
#if defined(V3)
EVENT(round)
EVENT(signals)
EVENT(startup)
EVENT(cycle)
#ifdef PARTS
EVENT(min_rtt)
EVENT(probe_rtt)
EVENT(plan)
EVENT(bound)
EVENT(window)
#define LAST_STEPS(flow) (min_rtt(flow), probe_rtt(flow), plan(flow), bound(flow), window(flow))
#else
EVENT(rtt)
EVENT(outputs)
#define LAST_STEPS(flow) (rtt(flow), outputs(flow))
#endif
EVENT(tlp_ack)
EVENT(tlp_recovery)
EVENT(lost)
#define ACK_STEPS(flow) (round(flow), signals(flow), startup(flow), cycle(flow), LAST_STEPS(flow))
#elif defined(V1)
EVENT(bandwidth)
EVENT(mode)
EVENT(outputs)
#define ACK_STEPS(flow) (bandwidth(flow), mode(flow), outputs(flow))
#else
EVENT(ack)
#define ACK_STEPS(flow) ack(flow)
#endif

static __always_inline void one_ack(struct flow *flow)
{
	ACK_STEPS(flow);
}

#ifdef BYTES
/* Volumes in bytes, from counts of packets: a change of their size changes what comes, not what was. */
static __always_inline void count_bytes(struct flow *flow)
{
	struct input *in = &flow->in;
	__u64 mss = in->mss;
	__u32 delivered = in->delivered, lost = in->lost;

	flow->delivered_bytes += (__u32)(delivered - flow->seen_delivered) * mss;
	flow->lost_bytes += (__u32)(lost - flow->seen_lost) * mss;
	flow->seen_delivered = delivered;
	flow->seen_lost = lost;
	in->rs_prior_delivered = flow->delivered_bytes - (__u32)(delivered - (__u32)in->rs_prior_delivered) * mss;
	in->delivered = flow->delivered_bytes;
	in->lost = flow->lost_bytes;
	in->in_flight *= mss;
	if (in->rs_delivered > 0)
		in->rs_delivered *= mss;
	in->rs_losses *= mss;
	in->rs_acked_sacked *= mss;
	in->rs_prior_in_flight *= mss;
	in->tx_in_flight *= mss;
	in->lost_since *= mss;
}
#else
static __always_inline void count_bytes(struct flow *flow)
{
}
#endif

/*
 * What the socket itself keeps for us, of which most hooks need no more: the smallest burst, and what was said since the last ACK
 * that was handled. All zero where a connection has no memory of ours.
 */
enum { MIN_BURST, SAID };
/* Bits of SAID: the ACK reports marks; it answers a tail-loss probe; ssthresh was asked, and the state for it is not told yet. */
enum { SAID_ECE = 1, SAID_TLP = 1 << 1, SAID_SSTHRESH = 1 << 2 };

/* The socket as it is, and what of it changes seldom. */
static __always_inline void read_for(struct flow *flow, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 most = flow->in.max_rate;
	__u32 size = tp->mss_cache;

	read_socket(flow, sk);
	if (flow->in.mss != size) {
		flow->in.mss = size;
		CALL(mss, MSS);
	}
	if (flow->in.max_rate != most)
		CALL(max_rate, MAX_RATE);
}

static __always_inline void read_between(struct flow *flow, struct sock *sk)
{
	read_for(flow, sk);
	no_sample(flow);
}

static __always_inline void write_outputs(struct flow *flow, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 rate = flow->out.pacing_rate;

	tp->snd_cwnd = flow->out.cwnd;
#ifdef ECN
	tp->snd_ssthresh = flow->out.ssthresh;
#endif
	sk->sk_pacing_rate = rate < flow->in.max_rate ? rate : flow->in.max_rate;
	KEPT(sk, MIN_BURST) = flow->out.min_burst;
#ifndef UNPACED
	enter_state(sk, flow->out.state);
#endif
}

SEC("struct_ops") void cc_init(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *flow = flow_of(sk, BPF_SK_STORAGE_GET_F_CREATE);

	if (!flow)
		return;
	begin(flow);
	read_beginning(flow, sk);
	flow->in.seed = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	flow->snd_nxt = tp->snd_nxt;
	KEPT(sk, SAID) = 0;
#ifdef V3
	forget_marks(flow);
#endif
#ifdef ECN
	flow->seen_marks = tp->delivered_ce;
#endif
#ifdef BYTES
	flow->delivered_bytes = (__u64)tp->delivered * tp->mss_cache;
	flow->lost_bytes = (__u64)tp->lost * tp->mss_cache;
	flow->seen_delivered = tp->delivered;
	flow->seen_lost = tp->lost;
#endif
	count_bytes(flow);
	CALL(init, INIT);
#ifndef UNPACED
	/* Davis has other states than BBR. */
	begin_states(sk, flow->out.state);
#endif
	write_outputs(flow, sk);
#ifndef ECN
	tp->snd_ssthresh = NO_SSTHRESH;
#endif
#ifndef UNPACED
	if (sk->sk_pacing_status == PACING_NONE)
		sk->sk_pacing_status = PACING_NEEDED;
#endif
}

SEC("struct_ops") void cc_release(__u64 *ctx)
{
	bpf_sk_storage_delete(&flows, (struct sock *)ctx[0]);
}

/*
 * The last argument, of two or of four. The verifier drops the branch not taken, which reads behind the hook's arguments; the loads are
 * written out so that the compiler does not merge them.
 */
static __always_inline const struct rate_sample *sample_of(__u64 *ctx)
{
	const struct rate_sample *rs;

	if (settings.two_arguments)
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(rs) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(rs) : "r"(ctx));
	return rs;
}

/* Sets the mark until what is in flight now has been delivered. */
static __always_inline void mark_app_limited(struct flow *flow, struct tcp_sock *tp)
{
	__u32 until = tp->delivered + packets_in_flight(tp);

	until = until ? until : 1;
	if (!settings.own_app_limited) {
		tp->app_limited = until;
		return;
	}
	if (!own_mark_stands(flow, tp->delivered))
		flow->limited_from = tp->delivered;
	flow->limited_to = until;
}

/* Was the sample's packet sent while our own mark stood? Linux tcp_rate_skb_sent writes that into the packet. */
static __always_inline bool was_sent_marked(struct flow *flow, __u32 prior_delivered)
{
	if (!settings.own_app_limited || !flow->limited_to)
		return 0;
	if ((__s32)(prior_delivered - flow->limited_to) > 0) {
		/* A packet sent after the mark: the range must not outlive the counter's wrap. */
		flow->limited_to = 0;
		return 0;
	}
	return (__s32)(prior_delivered - flow->limited_from) >= 0;
}

SEC("struct_ops") void cc_cong_control(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	const struct rate_sample *rs = sample_of(ctx);
	struct flow *flow = flow_of(sk, 0);
	struct input *in;
	bool app_limited;
#ifdef V3
	__u64 said;
#endif

	if (!flow)
		return;
	in = &flow->in;
	read_for(flow, sk);
	in->rs_delivered = rs->delivered;
	in->rs_interval_us = rs->interval_us > 0 ? rs->interval_us : -1;
	in->rs_prior_delivered = rs->prior_delivered;
	in->rs_rtt_us = rs->rtt_us;
	in->rs_losses = rs->losses > 0 ? rs->losses : 0;
	in->rs_acked_sacked = rs->acked_sacked;
	in->rs_prior_in_flight = rs->prior_in_flight;
	app_limited = rs->is_app_limited || was_sent_marked(flow, rs->prior_delivered);
	in->rs_marks = app_limited | rs->is_ack_delayed << 1;
#ifdef V3
	in->newest_end = rs->last_end_seq;
	flow->is_retrans = rs->is_retrans;
	flow->snd_nxt = tp->snd_nxt;
	look_up_flight(flow);
	leave_mark(flow);
	in->marked_since = 0;
	if (__builtin_preserve_field_info(rs->delivered_ce, 2) && rs->delivered_ce > 0)
		in->marked_since = rs->delivered_ce;
	said = KEPT(sk, SAID);
	if (said & SAID_ECE)
		in->marks |= ECE;
	if (READ_BITS(tp, is_cwnd_limited))
		in->marks |= CWND_LIMITED;
	if (said & SAID_TLP)
		CALL(tlp_ack, TLP_ACK);
	KEPT(sk, SAID) = said & SAID_SSTHRESH;
#endif
#ifdef ECN
	read_marks(flow, tp);
	read_sequence(flow, tp);
	in->packets_out = tp->packets_out;
	if (is_cwnd_limited(tp))
		in->marks |= CWND_LIMITED;
#endif
	count_bytes(flow);
#ifdef V3
	/* The kernel reports how many packets were lost, not which: they count as one gap, with the flight of the newest delivered one. */
	if (in->rs_losses) {
		in->seq = in->lost;
		in->packets = rs->losses;
		in->volume = in->rs_losses;
		if (app_limited)
			in->marks |= APP_LIMITED;
		else
			in->marks &= ~APP_LIMITED;
		CALL(lost, LOST);
	}
#endif
	CALL(one_ack, ACK);
	write_outputs(flow, sk);
	if (flow->out.mark_app_limited)
		mark_app_limited(flow, tp);
}

static __always_inline void restart_from_idle(struct sock *sk)
{
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return;
	read_between(flow, sk);
	count_bytes(flow);
	CALL(tx_start, TX_START);
	write_outputs(flow, sk);
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

#if defined(V3) || defined(ECN)
/* BBRv2, BBRv3 and Prague react to the change of state, which the kernel tells once it has asked for ssthresh. */
SEC("struct_ops") void cc_set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	__u32 new = (__u8)ctx[1];
	struct flow *flow = flow_of(sk, 0);
	__u64 said = KEPT(sk, SAID);

	if (!flow)
		return;
	read_between(flow, sk);
	count_bytes(flow);
	flow->in.old_ca_state = flow->in.ca_state;
	flow->in.ca_state = new;
	if (new == LOSS) {
		if (said & SAID_SSTHRESH)
			flow->in.marks |= FIRST_TIMEOUT;
		CALL(rto, RTO);
	} else {
#ifdef V3
		/* A window reduction that comes of the answer to a tail-loss probe, not of marks. */
		if (new == CWR && (said & (SAID_TLP | SAID_ECE)) == SAID_TLP)
			CALL(tlp_recovery, TLP_RECOVERY);
#endif
		CALL(ca_state, CA_STATE);
	}
	KEPT(sk, SAID) = said & ~SAID_SSTHRESH;
	write_outputs(flow, sk);
}

SEC("struct_ops") __u32 cc_ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	KEPT(sk, SAID) |= SAID_SSTHRESH;
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

#endif

#ifdef V3
/* Comes before cong_control, and alone says what the peer reports of marks. */
SEC("struct_ops") void cc_in_ack_event(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 said = KEPT(sk, SAID) & SAID_SSTHRESH;

	if ((__u32)ctx[1] & ACK_ECE)
		said |= SAID_ECE;
	if (tp->tlp_high_seq && READ_BITS(tp, tlp_retrans) && (__s32)(tp->snd_una - tp->tlp_high_seq) >= 0)
		said |= SAID_TLP;
	KEPT(sk, SAID) = said;
}
#elif !defined(ECN)
SEC("struct_ops") void cc_set_state(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow;

	if ((__u8)ctx[1] != LOSS)
		return;
	flow = flow_of(sk, 0);
	if (!flow)
		return;
	read_between(flow, sk);
	CALL(rto, RTO);
	write_outputs(flow, sk);
}

/* The threshold stands; the call says that a reduction begins. */
SEC("struct_ops") __u32 cc_ssthresh(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow = flow_of(sk, 0);

	if (flow) {
		read_between(flow, sk);
		flow->in.old_ca_state = 0;
		flow->in.ca_state = 3; /* TCP_CA_Recovery */
		CALL(ca_state, CA_STATE);
	}
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}
#endif

SEC("struct_ops") __u32 cc_undo_cwnd(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct flow *flow = flow_of(sk, 0);

	if (!flow)
		return ((struct tcp_sock *)sk)->snd_cwnd;
	read_between(flow, sk);
	count_bytes(flow);
	CALL(undo, UNDO);
	return READ_HERE(flow->out.cwnd);
}

SEC("struct_ops") __u32 cc_min_tso_segs(__u64 *ctx)
{
	__u32 least = KEPT((struct sock *)ctx[0], MIN_BURST);

	return least ? least : 2;
}

/* Room for a window in flight, one being repaired and one to come, as Linux's BBR. */
SEC("struct_ops") __u32 cc_sndbuf_expand(__u64 *ctx)
{
	return 3;
}

SEC(".struct_ops.link") struct tcp_congestion_ops cc = {
	.name = "bbrlab",
#ifdef ECN
	.flags = NON_RESTRICTED | NEEDS_ECN | NEEDS_ACCECN | ECT_1_NEGOTIATION | NO_FALLBACK_RFC3168,
#else
	.flags = NON_RESTRICTED,
#endif
	.init = (void *)cc_init,
	.release = (void *)cc_release,
	.cong_control = (void *)cc_cong_control,
	.cwnd_event = (void *)cc_cwnd_event,
	.cwnd_event_tx_start = (void *)cc_cwnd_event_tx_start,
	.set_state = (void *)cc_set_state,
	.ssthresh = (void *)cc_ssthresh,
	.undo_cwnd = (void *)cc_undo_cwnd,
	.min_tso_segs = (void *)cc_min_tso_segs,
	.sndbuf_expand = (void *)cc_sndbuf_expand,
#ifdef V3
	.in_ack_event = (void *)cc_in_ack_event,
#endif
};

#include "trial.h"
