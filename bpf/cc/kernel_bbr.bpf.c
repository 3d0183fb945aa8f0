// SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only
/*
 * The kernel's own BBR, called from the same hooks: what the kernel's statistics then say of a call is comparable with ours.
 */
#include "../kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

extern void bbr_init(struct sock *sk) __ksym;
extern void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs) __ksym;
extern __u32 bbr_sndbuf_expand(struct sock *sk) __ksym;
extern __u32 bbr_undo_cwnd(struct sock *sk) __ksym;
extern void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event) __ksym;
extern __u32 bbr_ssthresh(struct sock *sk) __ksym;
extern __u32 bbr_min_tso_segs(struct sock *sk) __ksym;
extern void bbr_set_state(struct sock *sk, __u8 new_state) __ksym;

SEC("struct_ops") void cc_init(__u64 *ctx)
{
	bbr_init((struct sock *)ctx[0]);
}

SEC("struct_ops") void cc_cong_control(__u64 *ctx)
{
	bbr_main((struct sock *)ctx[0], ctx[1], ctx[2], (const struct rate_sample *)ctx[3]);
}

SEC("struct_ops") void cc_cwnd_event(__u64 *ctx)
{
	bbr_cwnd_event((struct sock *)ctx[0], ctx[1]);
}

SEC("struct_ops") void cc_set_state(__u64 *ctx)
{
	bbr_set_state((struct sock *)ctx[0], ctx[1]);
}

SEC("struct_ops") __u32 cc_ssthresh(__u64 *ctx)
{
	return bbr_ssthresh((struct sock *)ctx[0]);
}

SEC("struct_ops") __u32 cc_undo_cwnd(__u64 *ctx)
{
	return bbr_undo_cwnd((struct sock *)ctx[0]);
}

SEC("struct_ops") __u32 cc_min_tso_segs(__u64 *ctx)
{
	return bbr_min_tso_segs((struct sock *)ctx[0]);
}

SEC("struct_ops") __u32 cc_sndbuf_expand(__u64 *ctx)
{
	return bbr_sndbuf_expand((struct sock *)ctx[0]);
}

SEC(".struct_ops.link") struct tcp_congestion_ops cc = {
	.name = "bbrlab",
	.flags = 1, /* TCP_CONG_NON_RESTRICTED */
	.init = (void *)cc_init,
	.cong_control = (void *)cc_cong_control,
	.cwnd_event = (void *)cc_cwnd_event,
	.set_state = (void *)cc_set_state,
	.ssthresh = (void *)cc_ssthresh,
	.undo_cwnd = (void *)cc_undo_cwnd,
	.min_tso_segs = (void *)cc_min_tso_segs,
	.sndbuf_expand = (void *)cc_sndbuf_expand,
};
