// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * The program of `bbrlab ab` with clocks, for tools/ab/cost.py: around each call, or, with -DINSIDE, around parts of the call that gives a
 * connection its arm; with -DALONE nothing is done but to set the congestion control; with -DOPENING, without clocks, nothing is asked
 * of a connection after it was given its arm, so that the kernel's own count is of its beginning alone. The arm is NAME, as two words;
 * connections are those to port 9078.
 */
#include "../../bpf/kernel.h"

enum part { clock, syn, idle, opened, closed, choice, table, setsockopt, PARTS };

struct sum {
	__u64 ns, calls;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PARTS);
	__type(key, __u32);
	__type(value, struct sum);
} sums SEC(".maps");

static __always_inline void add(__u32 part, __u64 begun)
{
	__u64 now = bpf_ktime_get_ns();
	struct sum *sum = bpf_map_lookup_elem(&sums, &part);

	if (sum) {
		sum->ns += now - begun;
		sum->calls++;
	}
}

#ifdef INSIDE
#define PART(name, what)                           \
	({                                         \
		__u64 begun = bpf_ktime_get_ns();  \
		typeof(what) result = (what);      \
		add(name, begun);                  \
		result;                            \
	})
#else
#define PART(name, what) (what)
#endif
#define SETTINGS                                                                                                     \
	{                                                                                                            \
		.key = { 1, 2 }, .directions = 2, .ports = 1, .port = { 9078 }, .keep4 = { ~0u, ~0u, ~0u, 0xffffff }, \
		.names = { { NAME } },                                                                               \
	}
#define CLOCKED
#ifdef OPENING
#define bpf_sock_ops_cb_flags_set(ops, flags) bpf_sock_ops_cb_flags_set(ops, 0)
#endif
#include "../../bpf/cc/ab.bpf.c"

#ifdef ALONE
SEC("sockops") int assign(struct bpf_sock_ops *ops)
{
	__u64 name[] = { NAME };
	__u64 begun;

	if (ops->op != OP_PASSIVE)
		return 1;
	begun = bpf_ktime_get_ns();
	bpf_setsockopt(ops, TCP, CONGESTION, name, NAME_MAX);
	add(setsockopt, begun);
	add(clock, bpf_ktime_get_ns());
	return 1;
}
#elif defined(OPENING)
SEC("sockops") int assign(struct bpf_sock_ops *ops)
{
	act(ops);
	return 1;
}
#elif defined(INSIDE)
SEC("sockops") int assign(struct bpf_sock_ops *ops)
{
	act(ops);
	add(clock, bpf_ktime_get_ns());
	return 1;
}
#else
SEC("sockops") int assign(struct bpf_sock_ops *ops)
{
	__u32 op = ops->op, part = idle;
	__u64 begun;

	if (op == OP_TIMEOUT_INIT && !ops->is_fullsock)
		part = syn;
	else if (op == OP_PASSIVE)
		part = opened;
	else if (op == OP_STATE && ops->args[1] == CLOSED)
		part = closed;
	begun = bpf_ktime_get_ns();
	act(ops);
	add(part, begun);
	add(clock, bpf_ktime_get_ns());
	return 1;
}
#endif
