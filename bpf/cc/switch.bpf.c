// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * Moves the sockets of the reader's network namespace from one congestion control to another: connections, and listeners, from which
 * new ones inherit. One row for each that has the first: its state, what became of it, and the error that kept it there, or 0.
 */
#include "../kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define NAME_MAX 16
/* Linux IPPROTO_TCP, TCP_CONGESTION. */
enum { TCP = 6, CONGESTION = 13 };

/* Set before the program is loaded; zeros behind a name. `states` has a bit for each TCP state in which a socket is moved. */
struct names {
	char from[NAME_MAX], to[NAME_MAX];
	__u32 states;
};

const volatile struct names settings SEC(".rodata.settings") = {};

struct row {
	__u32 state, moved;
	__s32 error;
};

SEC("iter/tcp") int move(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	const struct tcp_congestion_ops___kernel *ops;
	struct row row = {};
	char name[NAME_MAX];
	struct tcp_sock *tp;

	if (!common)
		return 0;
	tp = bpf_skc_to_tcp_sock(common);
	if (!tp)
		return 0;
	ops = ((struct inet_connection_sock *)tp)->icsk_ca_ops;
	if (!ops)
		return 0;
	for (int i = 0; i < NAME_MAX; i++) {
		char c = settings.from[i];

		if (ops->name[i] != c)
			return 0;
		if (!c)
			break;
	}
	row.state = common->skc_state;
	if (settings.states >> (row.state & 31) & 1) {
		row.moved = 1;
#pragma unroll
		for (int i = 0; i < NAME_MAX; i++)
			name[i] = settings.to[i];
		row.error = bpf_setsockopt(tp, TCP, CONGESTION, name, sizeof(name));
	}
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}
