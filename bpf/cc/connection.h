/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * Code shared by the programs for new connections (sock_ops): the ends of a connection, and a keyed hash.
 */
#ifndef BBRLAB_CONNECTION_H
#define BBRLAB_CONNECTION_H

#include "../kernel.h"

/* Linux include/uapi/linux/bpf.h and tcp_states.h. */
enum { OP_TIMEOUT_INIT = 1, OP_CONNECT = 3, OP_ACTIVE = 4, OP_PASSIVE = 5, OP_STATE = 10 };
enum { STATE_CALLS = 1 << 2, SYN_SENT = 2, CLOSED = 7 };
/* Units of an assignment, as in crates/study/src/ab/; BY_RULE: a rule of the policy in force has assigned the client's network. */
#define BUCKETS 10000
enum { BY_CONNECTION, BY_PREFIX, BY_TIME, BY_RULE };
enum { TCP = 6, CONGESTION = 13, INET = 2, INET6 = 10, NO_WAKEUP = 1, MMAPABLE = 1 << 10 };

struct bpf_sock_ops {
	__u32 op, args[4];
	__u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, is_fullsock;
	__u32 snd_cwnd, srtt_us, cb_flags, state, others[18];
	__u64 bytes_received, bytes_acked;
	void *sk;
};

/*
 * What the policy's program decided on the connection that this processor handled last: a test of a rule runs after it, and reads it.
 * `kept`: the application, or another test, had chosen its congestion control.
 */
struct decision {
	__u64 socket;
	__u32 rule;
	__u16 bucket;
	__u8 is_held_out, is_kept;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct decision);
} decisions SEC(".maps");

/* SipHash-1-3 (Aumasson and Bernstein, 2012) of five words, and the one that says how many bytes they are. */
#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
#define ROUND                                           \
	do {                                            \
		v0 += v1, v1 = ROTATE(v1, 13) ^ v0;     \
		v0 = ROTATE(v0, 32), v2 += v3;          \
		v3 = ROTATE(v3, 16) ^ v2, v0 += v3;     \
		v3 = ROTATE(v3, 21) ^ v0, v2 += v1;     \
		v1 = ROTATE(v1, 17) ^ v2;               \
		v2 = ROTATE(v2, 32);                    \
	} while (0)
#define WORDS 5

static __always_inline __u64 hash(__u64 k0, __u64 k1, const __u64 *words)
{
	__u64 v0 = k0 ^ 0x736f6d6570736575, v1 = k1 ^ 0x646f72616e646f6d;
	__u64 v2 = k0 ^ 0x6c7967656e657261, v3 = k1 ^ 0x7465646279746573;

	/* Short code is what makes it fast: between two connections the processor forgets what it ran. */
#pragma clang loop unroll(disable)
	for (int i = 0; i <= WORDS; i++) {
		__u64 word = words[i];

		v3 ^= word;
		ROUND;
		v0 ^= word;
	}
	v2 ^= 0xff;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 3; i++)
		ROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

static __always_inline __u64 pair(__u32 first, __u32 second)
{
	return first | (__u64)second << 32;
}

/* The verifier takes accesses that name their place alone; the compiler would join two into one whose place is computed. */
#define WORD(ops, field)                                                                                            \
	({                                                                                                          \
		__u32 word;                                                                                         \
		asm volatile("%0 = *(u32 *)(%1 + %2)"                                                               \
			     : "=r"(word)                                                                           \
			     : "r"(ops), "i"(__builtin_offsetof(struct bpf_sock_ops, field)));                      \
		word;                                                                                               \
	})

/* Both ends, IPv4 mapped into IPv6, in the order of the network. */
struct ends {
	__u32 remote[4], local[4];
	__u16 remote_port, local_port;
	__u8 is_v6;
};

static __always_inline bool read_ends(struct bpf_sock_ops *ops, struct ends *ends)
{
	ends->remote_port = __builtin_bswap32(WORD(ops, remote_port));
	ends->local_port = WORD(ops, local_port);
	if (WORD(ops, family) == INET6) {
		ends->remote[0] = WORD(ops, remote_ip6[0]), ends->remote[1] = WORD(ops, remote_ip6[1]);
		ends->remote[2] = WORD(ops, remote_ip6[2]), ends->remote[3] = WORD(ops, remote_ip6[3]);
		ends->local[0] = WORD(ops, local_ip6[0]), ends->local[1] = WORD(ops, local_ip6[1]);
		ends->local[2] = WORD(ops, local_ip6[2]), ends->local[3] = WORD(ops, local_ip6[3]);
	} else if (WORD(ops, family) == INET) {
		ends->remote[0] = ends->remote[1] = ends->local[0] = ends->local[1] = 0;
		ends->remote[2] = ends->local[2] = 0xffff0000;
		ends->remote[3] = WORD(ops, remote_ip4);
		ends->local[3] = WORD(ops, local_ip4);
	} else {
		return 0;
	}
	ends->is_v6 = ends->remote[0] || ends->remote[1] || ends->remote[2] != 0xffff0000;
	return 1;
}

#endif
