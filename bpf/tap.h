/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * A record of the tap: one call of a congestion control, as 64-bit fields in this order.
 * The order is the log's: `crates/replay/src/field.rs` holds the same list, and a test holds the two equal.
 */
#ifndef BBRLAB_TAP_H
#define BBRLAB_TAP_H

enum tap_algorithm { TAP_BBR1 = 1, TAP_CUBIC = 2 };

enum tap_kind {
	TAP_INIT = 1,
	TAP_CONG_CONTROL = 2,
	TAP_CWND_EVENT = 3,
	TAP_SET_STATE = 4,
	TAP_SSTHRESH_CALL = 5,
	TAP_UNDO = 6,
	TAP_CONG_AVOID = 7,
	TAP_PKTS_ACKED = 8,
	TAP_MIN_TSO_SEGS = 9,
};

/* 64-bit words of `icsk_ca_priv`. */
#define TAP_PRIVATE_WORDS 13

enum tap_field {
	/* The call. */
	TAP_KIND,
	TAP_ARG_A,
	TAP_ARG_B,
	/* What it reads. */
	TAP_JIFFIES,
	TAP_CLOCK_NS,
	TAP_WSTAMP_NS,
	TAP_MSTAMP_US,
	TAP_DELIVERED_US,
	TAP_DELIVERED,
	TAP_LOST,
	TAP_APP_LIMITED,
	TAP_PACKETS_OUT,
	TAP_SACKED_OUT,
	TAP_LOST_OUT,
	TAP_RETRANS_OUT,
	TAP_MAX_PACKETS_OUT,
	TAP_MSS,
	TAP_SRTT8_US,
	TAP_MIN_RTT_US,
	TAP_CA_STATE,
	TAP_CWND_LIMITED,
	TAP_CWND,
	TAP_CWND_CNT,
	TAP_CWND_CLAMP,
	TAP_SSTHRESH,
	TAP_PRIOR_CWND,
	TAP_PRIOR_SSTHRESH,
	TAP_PRR_DELIVERED,
	TAP_PRR_OUT,
	TAP_UNA,
	TAP_NEXT,
	TAP_LAST_SEND,
	TAP_PACING_RATE,
	TAP_PACING_MAX,
	TAP_PACING_STATUS,
	TAP_PACING_SHIFT,
	TAP_GSO_MAX,
	TAP_PORT,
	/* The rate sample; of `pkts_acked` the RTT, the packets and those in flight. */
	TAP_SAMPLE,
	TAP_RS_PRIOR_MSTAMP = TAP_SAMPLE,
	TAP_RS_PRIOR_DELIVERED,
	TAP_RS_DELIVERED,
	TAP_RS_INTERVAL_US,
	TAP_RS_SND_INTERVAL_US,
	TAP_RS_RCV_INTERVAL_US,
	TAP_RS_RTT_US,
	TAP_RS_LOSSES,
	TAP_RS_ACKED_SACKED,
	TAP_RS_PRIOR_IN_FLIGHT,
	TAP_RS_LAST_END_SEQ,
	TAP_RS_FLAGS,
	/* What it left. */
	TAP_AFTER,
	TAP_ANSWER = TAP_AFTER,
	TAP_JIFFIES_AFTER,
	TAP_CWND_AFTER,
	TAP_CWND_CNT_AFTER,
	TAP_SSTHRESH_AFTER,
	TAP_APP_LIMITED_AFTER,
	TAP_PACING_RATE_AFTER,
	TAP_PACING_STATUS_AFTER,
	TAP_PRIVATE,
	TAP_FIELDS = TAP_PRIVATE + TAP_PRIVATE_WORDS,
};

struct tap_record {
	/* Address of the socket, unique while it lives. */
	__u64 socket;
	__u64 f[TAP_FIELDS];
};

#endif
