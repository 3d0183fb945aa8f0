/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * The records of both taps, and the ring that they are written to.
 * The kernel's objects are read by address: the types of a module's functions may be the module's own, and then no helper takes them.
 */
#ifndef BBRLAB_RECORD_H
#define BBRLAB_RECORD_H

#include "kernel.h"
#include "tap.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} records SEC(".maps");

/* Calls that are not recorded. */
__u64 lost SEC(".data.lost") = 0;

static __always_inline void count_lost(void)
{
	__sync_fetch_and_add(&lost, 1);
}

/* Fills in kind, socket and inputs of a call. */
static __attribute__((noinline)) void note_inputs(struct tap_record *r, struct sock *sk, __u64 kind, __u64 a, __u64 b)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	r->socket = (__u64)sk;
	r->f[TAP_KIND] = kind;
	r->f[TAP_ARG_A] = a;
	r->f[TAP_ARG_B] = b;
	r->f[TAP_JIFFIES] = bpf_jiffies64();
	r->f[TAP_CLOCK_NS] = LOAD(tp, tcp_clock_cache);
	r->f[TAP_WSTAMP_NS] = LOAD(tp, tcp_wstamp_ns);
	r->f[TAP_MSTAMP_US] = LOAD(tp, tcp_mstamp);
	r->f[TAP_DELIVERED_US] = LOAD(tp, delivered_mstamp);
	r->f[TAP_DELIVERED] = LOAD(tp, delivered);
	r->f[TAP_LOST] = LOAD(tp, lost);
	r->f[TAP_APP_LIMITED] = LOAD(tp, app_limited);
	r->f[TAP_PACKETS_OUT] = LOAD(tp, packets_out);
	r->f[TAP_SACKED_OUT] = LOAD(tp, sacked_out);
	r->f[TAP_LOST_OUT] = LOAD(tp, lost_out);
	r->f[TAP_RETRANS_OUT] = LOAD(tp, retrans_out);
	r->f[TAP_MAX_PACKETS_OUT] = LOAD(tp, max_packets_out);
	r->f[TAP_MSS] = LOAD(tp, mss_cache);
	r->f[TAP_SRTT8_US] = LOAD(tp, srtt_us);
	r->f[TAP_MIN_RTT_US] = LOAD(tp, rtt_min.s[0].v);
	r->f[TAP_CA_STATE] = LOAD_BITS(icsk, icsk_ca_state);
	r->f[TAP_CWND_LIMITED] = LOAD_BITS(tp, is_cwnd_limited);
	r->f[TAP_CWND] = LOAD(tp, snd_cwnd);
	r->f[TAP_CWND_CNT] = LOAD(tp, snd_cwnd_cnt);
	r->f[TAP_CWND_CLAMP] = LOAD(tp, snd_cwnd_clamp);
	r->f[TAP_SSTHRESH] = LOAD(tp, snd_ssthresh);
	r->f[TAP_PRIOR_CWND] = LOAD(tp, prior_cwnd);
	r->f[TAP_PRIOR_SSTHRESH] = LOAD(tp, prior_ssthresh);
	r->f[TAP_PRR_DELIVERED] = LOAD(tp, prr_delivered);
	r->f[TAP_PRR_OUT] = LOAD(tp, prr_out);
	r->f[TAP_UNA] = LOAD(tp, snd_una);
	r->f[TAP_NEXT] = LOAD(tp, snd_nxt);
	r->f[TAP_LAST_SEND] = LOAD(tp, lsndtime);
	r->f[TAP_PACING_RATE] = LOAD(sk, sk_pacing_rate);
	r->f[TAP_PACING_MAX] = LOAD(sk, sk_max_pacing_rate);
	r->f[TAP_PACING_STATUS] = LOAD(sk, sk_pacing_status);
	r->f[TAP_PACING_SHIFT] = LOAD(sk, sk_pacing_shift);
	r->f[TAP_GSO_MAX] = LOAD(sk, sk_gso_max_size);
	r->f[TAP_PORT] = LOAD(sk, __sk_common.skc_num);
#pragma unroll
	for (int i = TAP_SAMPLE; i < TAP_AFTER; i++)
		r->f[i] = 0;
}

/* Fills in the state after the call, and its return value. */
static __attribute__((noinline)) void note_results(struct tap_record *r, struct sock *sk, __u64 answer)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	r->f[TAP_ANSWER] = answer;
	r->f[TAP_JIFFIES_AFTER] = bpf_jiffies64();
	r->f[TAP_CWND_AFTER] = LOAD(tp, snd_cwnd);
	r->f[TAP_CWND_CNT_AFTER] = LOAD(tp, snd_cwnd_cnt);
	r->f[TAP_SSTHRESH_AFTER] = LOAD(tp, snd_ssthresh);
	r->f[TAP_APP_LIMITED_AFTER] = LOAD(tp, app_limited);
	r->f[TAP_PACING_RATE_AFTER] = LOAD(sk, sk_pacing_rate);
	r->f[TAP_PACING_STATUS_AFTER] = LOAD(sk, sk_pacing_status);
	bpf_probe_read_kernel(&r->f[TAP_PRIVATE], 8 * TAP_PRIVATE_WORDS, &icsk->icsk_ca_priv);
}

/* Records the kernel's rate sample of this ACK. */
static __attribute__((noinline)) void note_sample(struct tap_record *r, struct rate_sample *rs)
{
	r->f[TAP_RS_PRIOR_MSTAMP] = LOAD(rs, prior_mstamp);
	r->f[TAP_RS_PRIOR_DELIVERED] = LOAD(rs, prior_delivered);
	r->f[TAP_RS_DELIVERED] = (__s64)LOAD(rs, delivered);
	r->f[TAP_RS_INTERVAL_US] = LOAD(rs, interval_us);
	r->f[TAP_RS_SND_INTERVAL_US] = LOAD(rs, snd_interval_us);
	r->f[TAP_RS_RCV_INTERVAL_US] = LOAD(rs, rcv_interval_us);
	r->f[TAP_RS_RTT_US] = LOAD(rs, rtt_us);
	r->f[TAP_RS_LOSSES] = (__s64)LOAD(rs, losses);
	r->f[TAP_RS_ACKED_SACKED] = LOAD(rs, acked_sacked);
	r->f[TAP_RS_PRIOR_IN_FLIGHT] = LOAD(rs, prior_in_flight);
	r->f[TAP_RS_LAST_END_SEQ] = LOAD(rs, last_end_seq);
	r->f[TAP_RS_FLAGS] = LOAD(rs, is_app_limited) | LOAD(rs, is_retrans) << 1 | LOAD(rs, is_ack_delayed) << 2;
}

#endif
