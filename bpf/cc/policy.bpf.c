// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * A policy of congestion controls: each new TCP connection of a cgroup gets the congestion control of the first rule that takes it, by
 * the client's network, the service's port, the cgroup and the RTT of the handshake.
 * Nothing here holds a connection up: where the kernel refuses, that is counted, and the connection goes on as it would have.
 */
#include "connection.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* As in crates/host/src/policy/kernel.rs. */
#define RULES 64
#define PORTS 8
#define NAME_MAX 16
#define TEXT_MAX (1 << 18)

enum { ACTIVE_CONNECTIONS = 1, PASSIVE_CONNECTIONS = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node___policy {
	__u64 id;
};

struct cgroup___policy {
	struct kernfs_node___policy *kn;
	int level;
	/* From Linux 6.1 on; before, it held their ids. */
	struct cgroup___policy *ancestors[1];
};

struct sock_cgroup_data___policy {
	struct cgroup___policy *cgroup;
};

struct sock___policy {
	struct sock_cgroup_data___policy sk_cgrp_data;
};

#pragma clang attribute pop

/* A rule without one of the conditions has it as wide as can be. `cgroup` 0 and `ports` 0: any. */
struct rule {
	__u64 cgroup, name[NAME_MAX / 8];
	__u32 level, rtt_from_us, rtt_below_us, holdout, ports, pad;
	__u16 port[PORTS];
};

/* Set before the program is loaded. */
struct settings {
	__u64 key[2];
	/* Rules for clients of any network, a bit each. */
	__u64 any_client;
	/* Algorithm of connections that no rule takes, or that are held out; empty: unchanged. */
	__u64 otherwise[NAME_MAX / 8];
	__u32 rules, directions, overrides_application, uses_rtt;
	struct rule rule[RULES];
};

const volatile struct settings settings SEC(".rodata.settings") = {};

/* Rules that name a network of the client, one bit each. IPv4 is mapped into IPv6. The loader sets the size. */
struct network {
	__u32 bits;
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct network);
	__type(value, __u64);
} networks SEC(".maps");

/* The last RTT of each client network, for handshakes that measure none. */
struct prefix {
	__u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, struct prefix);
	__type(value, __u32);
} rtts SEC(".maps");

/* Of each rule, and last of the connections that none takes. */
struct counters {
	__u64 taken, set, held_out, refused, chosen, last_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RULES + 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* The policy as it was written, so that whoever finds the program knows what it does. */
struct text {
	char bytes[TEXT_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct text);
} text SEC(".maps");

/* A new connection, as far as rules look at it. */
struct candidate {
	struct cgroup___policy *cgroup;
	__u32 rtt_us, port;
};

static __always_inline bool is_below(struct cgroup___policy *of, __u32 level, __u64 id)
{
	struct cgroup___policy *ancestor = 0;
	struct kernfs_node___policy *node = 0;
	__u64 found = 0;

	if (!of || (__u32)of->level < level)
		return 0;
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor), (const char *)&of->ancestors[0] + 8 * (__u64)level);
	if (!ancestor)
		return 0;
	bpf_probe_read_kernel(&node, sizeof(node), &ancestor->kn);
	bpf_probe_read_kernel(&found, sizeof(found), &node->id);
	return found == id;
}

static __always_inline bool takes(const volatile struct rule *rule, struct candidate *one)
{
	bool found = !rule->ports;

	if (one->rtt_us < rule->rtt_from_us || one->rtt_us >= rule->rtt_below_us)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PORTS; i++)
		found |= i < rule->ports && rule->port[i] == one->port;
	if (!found)
		return 0;
	return !rule->cgroup || is_below(one->cgroup, rule->level, rule->cgroup);
}

static __always_inline void prefix_of(const struct ends *ends, struct prefix *prefix)
{
	prefix->address[0] = ends->remote[0];
	prefix->address[1] = ends->is_v6 ? ends->remote[1] & __builtin_bswap32(0xffff0000) : 0;
	prefix->address[2] = ends->is_v6 ? 0 : ends->remote[2];
	prefix->address[3] = ends->is_v6 ? 0 : ends->remote[3] & __builtin_bswap32(0xffffff00);
}

/* Of the handshake, or remembered of the client's network; 0: not known. */
static __always_inline __u32 rtt_of(struct bpf_sock_ops *ops, struct prefix *prefix)
{
	__u32 rtt_us = WORD(ops, srtt_us) >> 3;
	__u32 *remembered;

	if (rtt_us) {
		bpf_map_update_elem(&rtts, prefix, &rtt_us, 0);
		return rtt_us;
	}
	remembered = bpf_map_lookup_elem(&rtts, prefix);
	return remembered ? *remembered : 0;
}

/* As an A/B test with this key that assigns client networks. */
static __always_inline __u16 bucket_of(struct prefix *prefix)
{
	__u64 words[WORDS + 1] = { BY_PREFIX << 16, [WORDS] = (__u64)(WORDS * 8) << 56 };

	words[1] = pair(prefix->address[0], prefix->address[1]);
	words[2] = pair(prefix->address[2], prefix->address[3]);
	return hash(settings.key[0], settings.key[1], words) % BUCKETS;
}

/* The congestion control that a name stands for; an empty one leaves what the connection has. */
static __always_inline void give(struct bpf_sock_ops *ops, struct tcp_sock *tp, const volatile __u64 *wanted, struct counters *count)
{
	const struct tcp_congestion_ops___kernel *has = ((struct inet_connection_sock *)tp)->icsk_ca_ops;
	__u64 name[NAME_MAX / 8] = { wanted[0], wanted[1] };

	if (!name[0])
		return;
	if (has && ((const __u64 *)has->name)[0] == name[0] && ((const __u64 *)has->name)[1] == name[1])
		return;
	if (bpf_setsockopt(ops, TCP, CONGESTION, name, NAME_MAX))
		__sync_fetch_and_add(&count->refused, 1);
}

/*
 * True if its application chose its congestion control, or a test gave it one that ran before. Where applications are overridden, a test
 * is known by the calls of the connection's state that it has asked for. A test that runs after this one sets what it likes.
 */
static __always_inline bool is_chosen(struct bpf_sock_ops *ops, struct tcp_sock *tp)
{
	if (settings.overrides_application)
		return ops->cb_flags & STATE_CALLS;
	return READ_BITS((struct inet_connection_sock *)tp, icsk_ca_setsockopt);
}

static __always_inline void decide(struct bpf_sock_ops *ops, bool is_passive)
{
	struct network network = { .bits = 128 };
	struct candidate one = {};
	struct prefix prefix = {};
	struct ends ends = {};
	__u32 rules = settings.rules, found = RULES, zero = 0;
	__u64 mask = settings.any_client, *named;
	const volatile struct rule *rule;
	struct decision *decision;
	struct counters *count;
	struct tcp_sock *tp;
	void *sk = ops->sk;

	/* Never so: the kernel keeps a map as long as a program that names it. */
	if (rules > RULES && !bpf_map_lookup_elem(&text, &rules))
		return;
	if (!(settings.directions & (is_passive ? PASSIVE_CONNECTIONS : ACTIVE_CONNECTIONS)) || !sk)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !read_ends(ops, &ends))
		return;
#pragma unroll
	for (int i = 0; i < 4; i++)
		network.address[i] = ends.remote[i];
	named = bpf_map_lookup_elem(&networks, &network);
	if (named)
		mask |= *named;
	prefix_of(&ends, &prefix);
	if (settings.uses_rtt)
		one.rtt_us = rtt_of(ops, &prefix);
	one.port = is_passive ? ends.local_port : ends.remote_port;
	one.cgroup = ((struct sock___policy *)tp)->sk_cgrp_data.cgroup;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < RULES; i++) {
		if (i >= rules)
			break;
		if (mask >> i & 1 && takes(&settings.rule[i], &one)) {
			found = i;
			break;
		}
	}
	/* The verifier follows a mask, and the compiler knows better than to keep it. */
	asm volatile("" : "+r"(found));
	rule = &settings.rule[found & (RULES - 1)];
	count = bpf_map_lookup_elem(&counters, &found);
	decision = bpf_map_lookup_elem(&decisions, &zero);
	if (!count || !decision)
		return;
	decision->socket = (__u64)sk;
	decision->rule = found;
	decision->bucket = found < RULES && rule->holdout ? bucket_of(&prefix) : 0;
	decision->is_held_out = found < RULES && decision->bucket < rule->holdout;
	decision->is_kept = is_chosen(ops, tp);
	__sync_fetch_and_add(&count->taken, 1);
	count->last_ns = bpf_ktime_get_ns();
	if (decision->is_kept) {
		__sync_fetch_and_add(&count->chosen, 1);
		return;
	}
	if (found >= RULES) {
		give(ops, tp, settings.otherwise, count);
	} else if (decision->is_held_out) {
		__sync_fetch_and_add(&count->held_out, 1);
		give(ops, tp, settings.otherwise, count);
	} else {
		__sync_fetch_and_add(&count->set, 1);
		give(ops, tp, rule->name, count);
	}
}

/* Replies are left as they are: other programs of the hook may have given one. */
SEC("sockops") int apply(struct bpf_sock_ops *ops)
{
	if (ops->op == OP_PASSIVE)
		decide(ops, 1);
	else if (ops->op == OP_ACTIVE)
		decide(ops, 0);
	return 1;
}
