/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * How long an algorithm of ours was in each state, where the socket keeps an algorithm's private data: whoever reads the socket can
 * read it, and knows it by its mark. The kernel clears that place whenever the congestion control changes.
 */
#ifndef BBRLAB_STATES_H
#define BBRLAB_STATES_H

#include "../kernel.h"

/* Those of BBR, as core's `State` numbers them from 0: Startup, Drain, ProbeBW Refill, Up, Down and Cruise, ProbeRTT. */
#define STATES 7

/* Words of the private data; those before are the algorithm's own. `KEPT_STATE_NS` is the first of STATES. */
enum { KEPT_SINCE = 2, KEPT_STATE = 3, KEPT_STATE_NS = 4, KEPT_MARK = 12 };
#define STATES_MARK 0x3173657461747362ull

#define KEPT(sk, word) (((struct inet_connection_sock *)(sk))->icsk_ca_priv[word])

static __always_inline void begin_states(struct sock *sk, __u32 state)
{
#pragma unroll
	for (int i = 0; i < STATES; i++)
		KEPT(sk, KEPT_STATE_NS + i) = 0;
	KEPT(sk, KEPT_SINCE) = bpf_ktime_get_ns();
	KEPT(sk, KEPT_STATE) = state;
	KEPT(sk, KEPT_MARK) = STATES_MARK;
}

static __always_inline void enter_state(struct sock *sk, __u32 state)
{
	__u64 now, lasted, left = KEPT(sk, KEPT_STATE);

	if (left == state)
		return;
	now = bpf_ktime_get_ns();
	lasted = now - KEPT(sk, KEPT_SINCE);
	/* The verifier takes no place that is computed. */
#pragma unroll
	for (int i = 0; i < STATES; i++)
		KEPT(sk, KEPT_STATE_NS + i) += left == i ? lasted : 0;
	KEPT(sk, KEPT_SINCE) = now;
	KEPT(sk, KEPT_STATE) = state;
}

/* False: the socket's algorithm keeps no such times. */
static __always_inline bool read_states(struct inet_connection_sock *sk, __u64 now, __u64 *into)
{
	__u64 since, state;

	if (KEPT(sk, KEPT_MARK) != STATES_MARK)
		return 0;
	since = KEPT(sk, KEPT_SINCE);
	state = KEPT(sk, KEPT_STATE);
#pragma unroll
	for (int i = 0; i < STATES; i++)
		into[i] = KEPT(sk, KEPT_STATE_NS + i) + (state == i && now > since ? now - since : 0);
	return 1;
}

#endif
