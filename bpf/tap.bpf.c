// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * The tap: programs at the entry and the exit of each function of the kernel's own BBR and CUBIC. They record the inputs and the
 * decisions of its calls, for the connections of one network namespace.
 */
#include "record.h"

/* Inode number of the network namespace that is recorded. */
const volatile __u32 network SEC(".rodata.settings") = 0;

/* A connection: the call that is under way, and the smallest burst of its last record, with the pacing rate. */
struct connection {
	struct tap_record call;
	/* The copy that opened the call, 0 if none is open; the copy that closed the last one, 0 once the other has run. */
	__u32 opened_by, closed_by;
	__u64 burst, burst_rate;
};

static const struct connection unused;

/* By address of the socket, from its `init` on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct connection);
} connections SEC(".maps");

static __always_inline bool is_recorded(struct sock *sk)
{
	struct net *net = LOAD((struct sock_common___net *)sk, skc_net.net);

	return LOAD(net, ns.inum) == network;
}

/* A recorded connection. The address may be that of an earlier one in another namespace. */
static __always_inline struct connection *connection_of(struct sock *sk)
{
	__u64 key = (__u64)sk;
	struct connection *connection = bpf_map_lookup_elem(&connections, &key);

	return connection && is_recorded(sk) ? connection : 0;
}

static __always_inline void send_results(struct connection *connection, struct sock *sk, __u64 answer)
{
	note_results(&connection->call, sk, answer);
	if (bpf_ringbuf_output(&records, &connection->call, sizeof(connection->call), 0))
		count_lost();
}

/*
 * The kernel skips a program that is interrupted, on this processor, by another connection's call of the same function. So each
 * function has two copies of its programs: the first to run does the work, and the other finds the call opened or closed.
 */
static __always_inline struct tap_record *begin(struct sock *sk, __u32 copy, __u64 kind, __u64 a, __u64 b)
{
	struct connection *connection = connection_of(sk);
	__u64 key = (__u64)sk;

	if (connection && connection->opened_by && connection->opened_by != copy)
		return 0;
	if (kind == TAP_INIT && is_recorded(sk)) {
		bpf_map_update_elem(&connections, &key, &unused, 0);
		connection = bpf_map_lookup_elem(&connections, &key);
	}
	/* Before its `init` a connection has no state: a SYN that is lost makes such calls. */
	if (!connection)
		return 0;
	if (connection->opened_by)
		count_lost();
	connection->opened_by = copy;
	note_inputs(&connection->call, sk, kind, a, b);
	return &connection->call;
}

static __always_inline void end(struct sock *sk, __u32 copy, __u64 kind, __u64 answer)
{
	struct connection *connection = connection_of(sk);

	if (!connection) {
		if (kind == TAP_INIT && is_recorded(sk))
			count_lost();
	} else if (connection->opened_by) {
		connection->opened_by = 0;
		connection->closed_by = copy;
		send_results(connection, sk, answer);
	} else if (connection->closed_by && connection->closed_by != copy) {
		connection->closed_by = 0;
	} else {
		connection->closed_by = copy;
		count_lost();
	}
}

/* The programs of one function. `ctx` holds its arguments and, at its exit, its return value after them. */
#define EXITS(function, kind, answer)                                                    \
	SEC("fexit/" #function) int tap_out1_##function(__u64 *ctx)                      \
	{                                                                                \
		end((struct sock *)ctx[0], 1, kind, answer);                             \
		return 0;                                                                \
	}                                                                                \
	SEC("fexit/" #function) int tap_out2_##function(__u64 *ctx)                      \
	{                                                                                \
		end((struct sock *)ctx[0], 2, kind, answer);                             \
		return 0;                                                                \
	}
#define TRACED(function, kind, a, b, answer)                                             \
	SEC("fentry/" #function) int tap_in1_##function(__u64 *ctx)                      \
	{                                                                                \
		begin((struct sock *)ctx[0], 1, kind, a, b);                             \
		return 0;                                                                \
	}                                                                                \
	SEC("fentry/" #function) int tap_in2_##function(__u64 *ctx)                      \
	{                                                                                \
		begin((struct sock *)ctx[0], 2, kind, a, b);                             \
		return 0;                                                                \
	}                                                                                \
	EXITS(function, kind, answer)

TRACED(bbr_init, TAP_INIT, TAP_BBR1, 0, 0)
TRACED(bbr_cwnd_event, TAP_CWND_EVENT, (__u32)ctx[1], 0, 0)
TRACED(bbr_cwnd_event_tx_start, TAP_CWND_EVENT, CA_EVENT_TX_START, 0, 0)
TRACED(bbr_set_state, TAP_SET_STATE, (__u8)ctx[1], 0, 0)
TRACED(bbr_ssthresh, TAP_SSTHRESH_CALL, 0, 0, (__u32)ctx[1])
TRACED(bbr_undo_cwnd, TAP_UNDO, 0, 0, (__u32)ctx[1])

/* From Linux 6.10 on (sk, ack, flag, rs), before (sk, rs). */
static __always_inline int begin_main(__u64 *ctx, __u32 copy)
{
	struct tap_record *r;
	__u64 ack = 0, flag = 0, rs = 0;

	if (bpf_get_func_arg(ctx, 3, &rs)) {
		bpf_get_func_arg(ctx, 1, &rs);
	} else {
		bpf_get_func_arg(ctx, 1, &ack);
		bpf_get_func_arg(ctx, 2, &flag);
	}
	r = begin((struct sock *)ctx[0], copy, TAP_CONG_CONTROL, (__u32)ack, (__u32)flag);
	if (r)
		note_sample(r, (struct rate_sample *)rs);
	return 0;
}

SEC("fentry/bbr_main") int tap_in1_bbr_main(__u64 *ctx)
{
	return begin_main(ctx, 1);
}

SEC("fentry/bbr_main") int tap_in2_bbr_main(__u64 *ctx)
{
	return begin_main(ctx, 2);
}

EXITS(bbr_main, TAP_CONG_CONTROL, 0)

/* Called at every transmission, but its result depends on the pacing rate alone: recorded if either has changed. */
SEC("fexit/bbr_min_tso_segs") int tap_out_bbr_min_tso_segs(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct connection *connection = connection_of(sk);
	__u64 burst = (__u32)ctx[1], rate;

	/* BBR calls it too, while it processes an ACK. */
	if (!connection || connection->opened_by)
		return 0;
	rate = LOAD(sk, sk_pacing_rate);
	if (connection->burst == burst && connection->burst_rate == rate)
		return 0;
	connection->burst = burst;
	connection->burst_rate = rate;
	note_inputs(&connection->call, sk, TAP_MIN_TSO_SEGS, 0, 0);
	send_results(connection, sk, burst);
	return 0;
}

TRACED(cubictcp_init, TAP_INIT, TAP_CUBIC, 0, 0)
TRACED(cubictcp_cong_avoid, TAP_CONG_AVOID, (__u32)ctx[1], (__u32)ctx[2], 0)
TRACED(cubictcp_cwnd_event, TAP_CWND_EVENT, (__u32)ctx[1], 0, 0)
TRACED(cubictcp_cwnd_event_tx_start, TAP_CWND_EVENT, CA_EVENT_TX_START, 0, 0)
TRACED(cubictcp_state, TAP_SET_STATE, (__u8)ctx[1], 0, 0)
TRACED(cubictcp_recalc_ssthresh, TAP_SSTHRESH_CALL, 0, 0, (__u32)ctx[1])
TRACED(tcp_reno_undo_cwnd, TAP_UNDO, 0, 0, (__u32)ctx[1])

static __always_inline int begin_acked(__u64 *ctx, __u32 copy)
{
	struct ack_sample *sample = (struct ack_sample *)ctx[1];
	struct tap_record *r = begin((struct sock *)ctx[0], copy, TAP_PKTS_ACKED, 0, 0);

	if (r) {
		r->f[TAP_RS_RTT_US] = (__s64)LOAD(sample, rtt_us);
		r->f[TAP_RS_ACKED_SACKED] = LOAD(sample, pkts_acked);
		r->f[TAP_RS_PRIOR_IN_FLIGHT] = LOAD(sample, in_flight);
	}
	return 0;
}

SEC("fentry/cubictcp_acked") int tap_in1_cubictcp_acked(__u64 *ctx)
{
	return begin_acked(ctx, 1);
}

SEC("fentry/cubictcp_acked") int tap_in2_cubictcp_acked(__u64 *ctx)
{
	return begin_acked(ctx, 2);
}

EXITS(cubictcp_acked, TAP_PKTS_ACKED, 0)
