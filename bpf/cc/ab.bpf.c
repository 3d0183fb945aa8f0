// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * An A/B test of congestion controls: each new TCP connection of a cgroup is given an arm by a keyed hash, and its congestion control
 * with it; or it observes the arms that a rule of the policy in force has given. Each connection is recorded when
 * it closes, and while it is open whenever `open` is run; the records go through rings.
 * Nothing here holds a connection up: where memory or room is missing, that is counted, and the connection goes on as it would have.
 */
#include "connection.h"
#include "states.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* As in crates/study/src/ab/. */
#define ARMS 8
#define PORTS 8
#define PREFIXES 16
#define OUTSIDE 0xff
#define NAME_MAX 16

enum { PASSIVE = 1, REFUSED = 2, APP_LIMITED = 4, OVERRIDDEN = 8, OPEN = 16, STATES_KNOWN = 32 };
enum { ACTIVE_CONNECTIONS = 1, PASSIVE_CONNECTIONS = 2 };

static long (*const bpf_get_socket_cookie)(void *ctx) = (void *)46;
static long (*const bpf_sock_ops_cb_flags_set)(void *ctx, int flags) = (void *)59;
static __u64 (*const bpf_ringbuf_query)(void *ring, __u64 what) = (void *)134;
static long (*const bpf_loop)(__u32 times, void *function, void *context, __u64 flags) = (void *)181;
enum { RING_UNREAD = 0 };

/* From Linux 6.2 on: what is read behind such a pointer may be anything, and where nothing is, reads as 0. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __attribute__((weak));
#define KERNEL_TYPE(name) __builtin_btf_type_id(*(name *)0, 1)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node___ab {
	__u64 id;
};

struct cgroup___ab {
	struct kernfs_node___ab *kn;
};

struct sock_cgroup_data___ab {
	struct cgroup___ab *cgroup;
};

struct atomic64___ab {
	__u64 counter;
};

struct sock_common___ab {
	struct atomic64___ab skc_cookie;
};

struct sock___ab {
	struct sock_common___ab __sk_common;
	struct sock_cgroup_data___ab sk_cgrp_data;
};

struct tcp_sock___ab {
	__u64 bytes_sent, bytes_retrans, bytes_acked, bytes_received;
	__u32 data_segs_out, total_retrans, delivered, delivered_ce, lost;
	__u32 rate_delivered, rate_interval_us;
	__u32 chrono_start, chrono_stat[3];
	__u8 chrono_type : 2;
	__u8 rate_app_limited : 1;
};

#pragma clang attribute pop

/* A bit field in some kernels, a whole byte in others: nothing is known of its place before the program is loaded. */
#define READ_ANY(s, field)                                                                        \
	({                                                                                        \
		const void *p = (const void *)(s) + __builtin_preserve_field_info((s)->field, 0); \
		__u64 value = 0;                                                                  \
		asm volatile("" : "+r"(p));                                                       \
		switch (__builtin_preserve_field_info((s)->field, 1)) {                           \
		case 1: value = *(const __u8 *)p; break;                                          \
		case 2: value = *(const __u16 *)p; break;                                         \
		case 4: value = *(const __u32 *)p; break;                                         \
		case 8: value = *(const __u64 *)p; break;                                         \
		}                                                                                 \
		value <<= __builtin_preserve_field_info((s)->field, 4);                           \
		value >> __builtin_preserve_field_info((s)->field, 5);                            \
	})

struct prefix {
	__u32 address[4], mask[4];
};

/* Set before the program is loaded. */
struct settings {
	__u64 key[2], slot_ns;
	__u32 by, directions, ports, prefixes, rule, pad;
	/* Recorded part of the client's address; IPv4 is mapped into IPv6. */
	__u32 keep4[4], keep6[4];
	__u32 port[PORTS];
	struct prefix prefix[PREFIXES];
	/* Names, padded with zeros, as two words each. */
	__u64 names[ARMS][NAME_MAX / 8];
};

/* tools/ab/parts.bpf.c has settings of its own, and clocks. */
#ifndef PART
#define PART(name, what) (what)
#define SETTINGS {}
#endif

const volatile struct settings settings SEC(".rodata.settings") = SETTINGS;

/* Arm of each bucket; OUTSIDE: not in the test. Every change raises `epoch`. */
struct split {
	__u32 epoch;
	__u8 arm[BUCKETS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct split);
} split SEC(".maps");

/*
 * Until when connections are assigned, by the clock of bpf_ktime_get_coarse_ns: whoever runs the test puts it off again and again, so
 * that a test that nobody watches ends. 0: no end.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} deadline SEC(".maps");

struct arm_counters {
	__u64 tried, established, failed, refused;
};

struct counters {
	struct arm_counters arm[ARMS];
	__u64 lost, no_memory;
};

/* One for each processor, so that none waits for another's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

/*
 * A connection's part in the test: a line of the cache. `id` 0: nobody has the place. `socket`, an address, is there from when it is
 * established until it closes, which another program may keep from being seen here.
 */
struct member {
	__u64 id, begun_ns, socket;
	__u32 epoch, told;
	__u32 client[4];
	__u16 bucket, port;
	__u8 arm, flags, family;
	__u64 unused;
};
_Static_assert(sizeof(struct member) == 64, "a place is a line of the cache");

/*
 * Storage of the socket's own would find each member by itself, but the kernel takes longer to make it than all else takes here. So
 * a table that is there from the beginning: a member stands at its hash, or in one of the next PROBES places. Mapped, it begins at a
 * page. Its size is the loader's; what does not fit is counted, and has no part in the test.
 */
#define PLACES (1 << 18)
#define PROBES 16

/* Places per call of a reader of all of it: the call takes the kernel longer than skipping an empty place. */
#define GROUP 16
struct group {
	struct member member[GROUP];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MMAPABLE);
	__uint(max_entries, PLACES / GROUP);
	__type(key, __u32);
	__type(value, struct group);
} members SEC(".maps");

/* crates/study/src/ab/record.rs reads it by these places. */
struct record {
	__u64 id, begun_ns, at_ns, cgroup;
	__u64 bytes_acked, bytes_received, bytes_sent, bytes_retrans, pacing_rate, delivery_rate;
	__u32 busy_ticks, rwnd_limited_ticks, sndbuf_limited_ticks;
	__u32 data_segs_out, retrans, delivered, delivered_ce, lost;
	__u32 min_rtt_us, srtt_us, cwnd, mss;
	__u32 epoch, nth;
	__u32 client[4];
	__u16 bucket, port;
	__u8 arm, flags, family, unused;
	/* Time in each state, if the algorithm counts it. */
	__u64 state_ns[STATES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} records SEC(".maps");

static __always_inline struct counters *count(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/* Handshakes end in interrupts, others in the process's own time: an interrupt between reading and writing must not be lost. */
#define ADD(to) __sync_fetch_and_add(&(to), 1)
#define COUNT(of, what)                        \
	({                                     \
		struct counters *c = count();  \
		__u32 nth = (of) & (ARMS - 1); \
		if (c)                         \
			ADD(c->arm[nth].what); \
	})

static __always_inline bool is_named(const struct ends *ends, bool is_passive)
{
	__u16 port = is_passive ? ends->local_port : ends->remote_port;
	__u32 ports = settings.ports;
	bool found = !ports;

	if (!(settings.directions & (is_passive ? PASSIVE_CONNECTIONS : ACTIVE_CONNECTIONS)))
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < PORTS && i < ports && !found; i++)
		found = settings.port[i] == port;
	if (!found)
		return 0;
	if (!settings.prefixes)
		return 1;
	for (int i = 0; i < PREFIXES; i++) {
		const volatile struct prefix *one = &settings.prefix[i];

		if (i >= settings.prefixes)
			break;
		if (!((ends->remote[0] ^ one->address[0]) & one->mask[0]) && !((ends->remote[1] ^ one->address[1]) & one->mask[1]) &&
		    !((ends->remote[2] ^ one->address[2]) & one->mask[2]) && !((ends->remote[3] ^ one->address[3]) & one->mask[3]))
			return 1;
	}
	return 0;
}

/* The arm that the rule gave this connection just now: the control where it was held out. */
static __always_inline bool read_decision(struct bpf_sock_ops *ops, struct member *member)
{
	__u32 zero = 0;
	struct decision *decision = bpf_map_lookup_elem(&decisions, &zero);

	if (!decision || decision->socket != (__u64)ops->sk || decision->rule != settings.rule || decision->is_kept)
		return 0;
	member->bucket = decision->bucket;
	member->arm = !decision->is_held_out;
	return 1;
}

/* The part that a connection has in the test; false: none. */
static __always_inline bool choose(struct bpf_sock_ops *ops, bool is_passive, struct member *member)
{
	__u64 words[WORDS + 1] = { [WORDS] = (__u64)(WORDS * 8) << 56 };
	struct ends ends = {};
	struct split *table;
	__u32 zero = 0, bucket;
	__u64 *until = bpf_map_lookup_elem(&deadline, &zero);

	if (until && *until && bpf_ktime_get_coarse_ns() > *until)
		return 0;
	if (!read_ends(ops, &ends) || !is_named(&ends, is_passive))
		return 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		member->client[i] = ends.remote[i] & (ends.is_v6 ? settings.keep6[i] : settings.keep4[i]);
	table = bpf_map_lookup_elem(&split, &zero);
	if (!table)
		return 0;
	member->epoch = table->epoch;
	member->port = is_passive ? ends.local_port : ends.remote_port;
	member->flags = is_passive ? PASSIVE : 0;
	member->family = ends.is_v6 ? 6 : 4;
	if (settings.by == BY_RULE)
		return read_decision(ops, member);
	words[0] = settings.by << 16;
	if (settings.by == BY_TIME) {
		words[1] = settings.slot_ns ? bpf_ktime_get_ns() / settings.slot_ns : 0;
	} else if (settings.by == BY_PREFIX) {
		words[1] = pair(member->client[0], member->client[1]);
		words[2] = pair(member->client[2], member->client[3]);
	} else {
		words[0] = pair(ends.remote_port | settings.by << 16, ends.local_port);
		words[1] = pair(ends.remote[0], ends.remote[1]);
		words[2] = pair(ends.remote[2], ends.remote[3]);
		words[3] = pair(ends.local[0], ends.local[1]);
		words[4] = pair(ends.local[2], ends.local[3]);
	}
	bucket = hash(settings.key[0], settings.key[1], words) % BUCKETS;
	/* The verifier does not know it of a remainder, and the compiler knows it too well to ask. */
	asm volatile("" : "+r"(bucket));
	if (bucket >= BUCKETS)
		return 0;
	member->bucket = bucket;
	member->arm = table->arm[bucket];
	return member->arm < ARMS;
}

/*
 * Cookies follow each other. So that new connections stand side by side, which spares the cache and the page table, PAGE numbers
 * stay together, and where those stand is drawn by Fibonacci hashing (Knuth); the next place to look at is in another page.
 */
#define PAGE 64

static __always_inline struct member *place(__u64 id, __u32 nth)
{
	__u32 page = (id / PAGE + nth * 0x9e3779b1u) * 0x9e3779b97f4a7c15 >> 32;
	__u32 at = (page * PAGE + id % PAGE) & (PLACES - 1), nth_group = at / GROUP;
	struct group *group = bpf_map_lookup_elem(&members, &nth_group);

	return group ? &group->member[at % GROUP] : 0;
}

static __always_inline struct member *find(__u64 id)
{
	for (int i = 0; i < PROBES; i++) {
		struct member *member = place(id, i);

		if (member && member->id == id)
			return member;
	}
	return 0;
}

/* A place for a connection; one that several want at the same time, one gets. */
static __always_inline struct member *take(__u64 id)
{
	for (int i = 0; i < PROBES; i++) {
		struct member *member = place(id, i);

		if (member && !member->id && !__sync_val_compare_and_swap(&member->id, 0, id))
			return member;
	}
	return 0;
}

static __always_inline struct member *join(struct bpf_sock_ops *ops, struct member *chosen)
{
	struct member *member;
	struct counters *c;

	chosen->id = bpf_get_socket_cookie(ops);
	member = take(chosen->id);
	if (member) {
		*member = *chosen;
		bpf_sock_ops_cb_flags_set(ops, ops->cb_flags | STATE_CALLS);
		return member;
	}
	c = count();
	if (c)
		ADD(c->no_memory);
	return 0;
}

/* True if a socket has an arm's congestion control. The kernel's names are padded with zeros too. */
static __always_inline bool has(const struct tcp_sock *tp, __u32 arm)
{
	const struct tcp_congestion_ops___kernel *ops = ((const struct inet_connection_sock *)tp)->icsk_ca_ops;
	const __u64 *name;

	if (!ops)
		return 0;
	name = (const __u64 *)ops->name;
	return name[0] == settings.names[arm][0] && name[1] == settings.names[arm][1];
}

/* Before the kernel starts the congestion control of a new connection, which a rule has given already. */
static __always_inline void begin(struct bpf_sock_ops *ops, struct member *member)
{
	__u32 arm = member->arm & (ARMS - 1);
	__u64 name[NAME_MAX / 8] = { settings.names[arm][0], settings.names[arm][1] };
	void *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	member->begun_ns = bpf_ktime_get_ns();
	COUNT(arm, established);
	if (!(tp && has(tp, arm)) && (settings.by == BY_RULE || PART(setsockopt, bpf_setsockopt(ops, TCP, CONGESTION, name, NAME_MAX)))) {
		member->flags |= REFUSED;
		COUNT(arm, refused);
	}
	/* A barrier too: whoever sees it finds all else in its place. */
	__sync_lock_test_and_set(&member->socket, (__u64)sk);
}

static __always_inline void fill(struct record *record, struct tcp_sock *tp, struct member *member)
{
	struct tcp_sock___ab *of = (void *)tp;
	struct cgroup___ab *cgroup = ((struct sock___ab *)tp)->sk_cgrp_data.cgroup;
	__u32 running = READ_ANY(of, chrono_type), since = (__u32)bpf_jiffies64() - of->chrono_start;
	__u32 min_rtt_us = tp->rtt_min.s[0].v, interval = of->rate_interval_us, arm = member->arm & (ARMS - 1);
	__u32 chrono[3];

#pragma unroll
	for (int i = 0; i < 3; i++)
		chrono[i] = of->chrono_stat[i] + (running == i + 1 ? since : 0);
	record->id = member->id;
	record->begun_ns = member->begun_ns;
	record->at_ns = bpf_ktime_get_ns();
	record->cgroup = cgroup && cgroup->kn ? cgroup->kn->id : 0;
	record->bytes_acked = of->bytes_acked;
	record->bytes_received = of->bytes_received;
	record->bytes_sent = of->bytes_sent;
	record->bytes_retrans = of->bytes_retrans;
	record->pacing_rate = ((struct sock *)tp)->sk_pacing_rate;
	record->delivery_rate = interval ? (__u64)of->rate_delivered * tp->mss_cache * 1000000 / interval : 0;
	/* The kernel counts time that was limited apart from other busy time. */
	record->busy_ticks = chrono[0] + chrono[1] + chrono[2];
	record->rwnd_limited_ticks = chrono[1];
	record->sndbuf_limited_ticks = chrono[2];
	record->data_segs_out = of->data_segs_out;
	record->retrans = of->total_retrans;
	record->delivered = of->delivered;
	record->delivered_ce = of->delivered_ce;
	record->lost = of->lost;
	record->min_rtt_us = min_rtt_us == (__u32)~0 ? 0 : min_rtt_us;
	record->srtt_us = tp->srtt_us >> 3;
	record->cwnd = tp->snd_cwnd;
	record->mss = tp->mss_cache;
	record->epoch = member->epoch;
#pragma unroll
	for (int i = 0; i < 4; i++)
		record->client[i] = member->client[i];
	record->bucket = member->bucket;
	record->port = member->port;
	record->arm = member->arm;
	record->flags = member->flags | (READ_ANY(of, rate_app_limited) ? APP_LIMITED : 0);
	record->family = member->family;
	record->unused = 0;
	if (!has(tp, arm))
		record->flags |= OVERRIDDEN;
	else if (read_states((struct inet_connection_sock *)tp, record->at_ns, record->state_ns))
		record->flags |= STATES_KNOWN;
}

/* A close may be told while another processor reads the table. A barrier too: what is asked after it is not read before. */
static __always_inline __u32 next(struct member *member)
{
	return __sync_fetch_and_add(&member->told, 1) + 1;
}

static __always_inline void tell(struct member *member, struct tcp_sock *tp)
{
	struct record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);
	struct counters *c;

	if (record) {
		fill(record, tp, member);
		record->nth = next(member);
		bpf_ringbuf_submit(record, NO_WAKEUP);
		return;
	}
	c = count();
	if (c)
		ADD(c->lost);
}

/* This connection's part, if it has any: STATE_CALLS says so without a look at the table, where nobody else asked for them. */
static __always_inline struct member *member_of(struct bpf_sock_ops *ops)
{
	return ops->cb_flags & STATE_CALLS ? find(bpf_get_socket_cookie(ops)) : 0;
}

static __always_inline void on_close(struct bpf_sock_ops *ops)
{
	struct member *member;
	struct tcp_sock *tp;
	void *sk = ops->sk;

	if (ops->args[1] != CLOSED)
		return;
	member = member_of(ops);
	if (!member)
		return;
	/* First, so that no record of an open connection follows the one that is told here. */
	member->socket = 0;
	if (ops->args[0] == SYN_SENT) {
		COUNT(member->arm, failed);
	} else {
		tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;
		if (tp && member->begun_ns)
			tell(member, tp);
	}
	/* A barrier too: from here on the place is another's. */
	__sync_lock_test_and_set(&member->id, 0);
}

static __always_inline void act(struct bpf_sock_ops *ops)
{
	struct member chosen = {}, *member = 0;
	__u32 op = ops->op;

	/* A rule decides on established connections. */
	if (settings.by == BY_RULE && op != OP_STATE) {
		if ((op == OP_ACTIVE || op == OP_PASSIVE) && choose(ops, op == OP_PASSIVE, &chosen))
			member = join(ops, &chosen);
		if (member) {
			COUNT(member->arm, tried);
			begin(ops, member);
		}
		return;
	}
	switch (op) {
	case OP_TIMEOUT_INIT:
		/* A request for a connection that has no socket yet: a handshake of the arm that it is going to have. */
		if (ops->is_fullsock)
			break;
	case OP_CONNECT:
	case OP_PASSIVE:
		/* One place for all three, so that the last of them finds the first one's code in the cache. */
		if (!PART(choice, choose(ops, op != OP_CONNECT, &chosen)))
			break;
		if (op != OP_TIMEOUT_INIT)
			member = PART(table, join(ops, &chosen));
		if (op == OP_TIMEOUT_INIT || (op == OP_CONNECT && member))
			COUNT(chosen.arm, tried);
		if (op == OP_PASSIVE && member)
			begin(ops, member);
		break;
	case OP_ACTIVE:
		member = member_of(ops);
		if (member)
			begin(ops, member);
		break;
	case OP_STATE:
		on_close(ops);
		break;
	}
}

/* Replies are left as they are: other programs of the hook may have given one. */
#ifndef CLOCKED
SEC("sockops") int assign(struct bpf_sock_ops *ops)
{
	act(ops);
	return 1;
}
#endif

/* True if the socket is the member's, and open: memory that was freed keeps its cookie until it is used again, and its state, closed. */
static __always_inline bool is_of(const struct tcp_sock *tp, const struct member *member)
{
	__u64 cookie = ((struct sock___ab *)tp)->__sk_common.skc_cookie.counter;

	return cookie == member->id && ((struct sock *)tp)->__sk_common.skc_state != CLOSED;
}

/*
 * Nothing holds the socket meanwhile: the record is of this connection if the socket was its before and after. The kernel may be at
 * work on it: time that is counted from a moment is right if that moment stays the same, which is asked so often.
 */
#define TRIES 3

static __always_inline bool fill_open(struct record *record, struct member *member, __u64 socket)
{
	struct tcp_sock *tp = bpf_rdonly_cast((const void *)socket, KERNEL_TYPE(struct tcp_sock));
	struct tcp_sock___ab *of = (void *)tp;

	if (!is_of(tp, member))
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < TRIES; i++) {
		__u64 state_since = KEPT(tp, KEPT_SINCE);
		__u32 busy_since = of->chrono_start;

		asm volatile("" ::: "memory");
		fill(record, tp, member);
		asm volatile("" ::: "memory");
		if (KEPT(tp, KEPT_SINCE) == state_since && of->chrono_start == busy_since)
			break;
	}
	record->flags |= OPEN;
	record->nth = next(member);
	return is_of(tp, member) && member->socket == socket && member->id == record->id && member->begun_ns == record->begun_ns;
}

/* Records of open connections that the reader has not taken yet: a ring of their own, so that they never crowd out one of a close. */
#define OPENED_BYTES (1 << 18)
#define HEADER 8

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, OPENED_BYTES);
} opened SEC(".maps");

/* The group that is read next. */
struct walk {
	__u32 group;
};

/* Ends the loop where a group's records might not fit. */
static long tell_group(__u32 nth, struct walk *walk)
{
	__u32 at = walk->group;
	struct group *group;

	if (bpf_ringbuf_query(&opened, RING_UNREAD) > OPENED_BYTES - GROUP * (sizeof(struct record) + HEADER))
		return 1;
	group = bpf_map_lookup_elem(&members, &at);
	if (!group)
		return 1;
#pragma clang loop unroll(disable)
	for (int i = 0; i < GROUP; i++) {
		struct member *member = &group->member[i];
		__u64 socket = member->socket;

		if (socket) {
			struct record record = {};

			if (fill_open(&record, member, socket))
				bpf_ringbuf_output(&opened, &record, sizeof(record), NO_WAKEUP);
		}
	}
	walk->group = at + 1;
	return 0;
}

/*
 * The connections that are open, of any network namespace, and whether a process still has them or not: it goes through the table, for
 * the kernel's own lists are by namespace, and a namespace without a process is not to be found. It is run again, from where it
 * stopped, until it has seen all groups. An iterator over the map would do the same, but hardened kernels refuse those.
 */
SEC("syscall") int open(struct walk *ctx)
{
	struct walk walk = { .group = ctx->group };

	bpf_loop(PLACES / GROUP, tell_group, &walk, 0);
	ctx->group = walk.group;
	return walk.group < PLACES / GROUP;
}
