// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * What is in flight when a packet is sent, told of each as it leaves: the truth beside what `marks.h` estimates, for measurements.
 */
#include "../kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Of IPv4 and TCP, without options of IP. */
#define HEADERS 40
#define IP_HEADER 20

struct __sk_buff {
	__u32 length, others[41];
	void *sk;
	__u32 segment_bytes;
};

struct sent {
	__u64 at_ns;
	__u32 begin, end, in_flight, lost, segments, port;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 26);
} sents SEC(".maps");

SEC("cgroup_skb/egress") int egress(struct __sk_buff *skb)
{
	__u8 head[HEADERS];
	struct tcp_sock *tp;
	struct sent *sent;
	void *sk = skb->sk;
	__u32 begin, bytes;

	if (!sk)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || bpf_skb_load_bytes(skb, 0, head, HEADERS) || head[0] != 0x45)
		return 1;
	begin = head[24] << 24 | head[25] << 16 | head[26] << 8 | head[27];
	bytes = skb->length - IP_HEADER - (head[32] >> 4) * 4;
	if ((__s32)bytes <= 0)
		return 1;
	sent = bpf_ringbuf_reserve(&sents, sizeof(*sent), 0);
	if (!sent)
		return 1;
	sent->at_ns = bpf_ktime_get_ns();
	sent->begin = begin;
	sent->end = begin + bytes;
	/* Without this packet: it is counted once it has left. */
	sent->in_flight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	sent->lost = tp->lost;
	sent->segments = (bytes + tp->mss_cache - 1) / (tp->mss_cache ? tp->mss_cache : 1);
	sent->port = head[20] << 8 | head[21];
	bpf_ringbuf_submit(sent, 0);
	return 1;
}
