/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * How much was in flight, and how much was lost, when the newest packet that an ACK delivers was sent.
 *
 * BBRv2 and BBRv3 want to know it; Google's kernels write it into each packet, others do not. But they tell what was delivered when
 * that packet was sent (`rs->prior_delivered`). So for each of the last ACKs a mark keeps what was delivered and lost then, and, once
 * the next ACK comes, what was in flight and which sequence number was next just before it. Between the two ACKs packets left one
 * after the other, so the packet that ends at E had less in flight by what was sent after it: (next - E) / mss packets.
 */
#ifndef BBRLAB_MARKS_H
#define BBRLAB_MARKS_H

#include "flow.h"

/* Marks lie at least this share of a window apart, so that the ring holds more than a round trip. */
#define MARKS_A_WINDOW 48

#define MARK(n) flow->marks[(n) & (MARKS - 1)]

/* The newest mark but those made after the packet was sent: by halves, without a loop for the verifier to unroll. */
#define IS_BEFORE(n) ((__s32)(MARK(n).delivered - (__u32)flow->in.rs_prior_delivered) <= 0)
#define HALVE(width)               \
	if (IS_BEFORE(at + (width))) \
		at += (width);

__attribute__((noinline)) int look_up_flight(struct flow *flow)
{
	__u32 at, mss, after, sent_later;

	if (!flow)
		return 0;
	flow->in.tx_in_flight = 0;
	flow->in.lost_since = 0;
	MARK(flow->newest).in_flight = flow->in.rs_prior_in_flight;
	MARK(flow->newest).next = flow->snd_nxt;
	if (flow->in.rs_delivered < 0)
		return 0;
	/* Mostly the last one, or the next. */
	at = flow->found;
	if (flow->newest - at >= MARKS - 1 || !IS_BEFORE(at))
		at = flow->newest - (MARKS - 1);
	else if (IS_BEFORE(at + 1) && at != flow->newest)
		at++;
	if (at != flow->newest && IS_BEFORE(at + 1)) {
		at = flow->newest - (MARKS - 1);
		HALVE(32) HALVE(16) HALVE(8) HALVE(4) HALVE(2) HALVE(1)
	}
	flow->found = at;
	flow->in.tx_in_flight = MARK(at).in_flight;
	flow->in.lost_since = (__u32)flow->in.lost - MARK(at).lost;
	/* A retransmission stands elsewhere in the sequence than among what was sent with it. */
	after = MARK(at).next - flow->in.newest_end;
	mss = flow->in.mss;
	if (!flow->is_retrans && (__s32)after > 0 && mss) {
		sent_later = (after + mss - 1) / mss;
		flow->in.tx_in_flight = sent_later < flow->in.tx_in_flight ? flow->in.tx_in_flight - sent_later : 1;
	}
	return 0;
}

__attribute__((noinline)) int leave_mark(struct flow *flow)
{
	__u32 since;

	if (!flow)
		return 0;
	since = (__u32)flow->in.delivered - flow->delivered_at_mark;
	if (since * MARKS_A_WINDOW < flow->in.cwnd) {
		/* Nothing is known to have been sent since: what was lost meanwhile was known at sending. */
		MARK(flow->newest).lost = flow->in.lost;
		return 0;
	}
	flow->newest++;
	flow->delivered_at_mark = flow->in.delivered;
	MARK(flow->newest).delivered = flow->in.delivered;
	MARK(flow->newest).lost = flow->in.lost;
	MARK(flow->newest).in_flight = flow->in.in_flight;
	MARK(flow->newest).next = flow->snd_nxt;
	return 0;
}

static __always_inline void forget_marks(struct flow *flow)
{
	struct ack_mark first = {
		.delivered = flow->in.delivered, .lost = flow->in.lost, .in_flight = flow->in.in_flight, .next = flow->snd_nxt
	};

	/* Every mark is one of the beginning: whatever was sent before has that. */
	for (int i = 0; i < MARKS; i++)
		flow->marks[i] = first;
	flow->newest = flow->found = 0;
	flow->delivered_at_mark = flow->in.delivered;
}

#endif
