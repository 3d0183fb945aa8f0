/* SPDX-License-Identifier: (Apache-2.0 OR MIT) OR GPL-2.0-only */
/*
 * One event on a connection of its own, for whoever compares this program with the same code run elsewhere (BPF_PROG_TEST_RUN).
 * Not loaded with the congestion control.
 */
#ifndef BBRLAB_TRIAL_H
#define BBRLAB_TRIAL_H

struct trial {
	__u64 event;
	struct input in;
	struct output out;
	struct telemetry model;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} trial_flow SEC(".maps");

SEC("syscall") int trial_event(struct trial *trial)
{
	struct telemetry model = {};
	__u32 zero = 0;
	struct flow *flow = bpf_map_lookup_elem(&trial_flow, &zero);

	if (!flow)
		return 1;
	flow->in = trial->in;
	switch (trial->event) {
	case 0: init(flow); break;
	case 1: one_ack(flow); break;
	case 2: tx_start(flow); break;
	case 3: rto(flow); break;
	case 4: ca_state(flow); break;
	case 5: undo(flow); break;
	case 6: mss(flow); break;
	case 7: max_rate(flow); break;
#ifdef V3
	case 8: tlp_ack(flow); break;
	case 9: tlp_recovery(flow); break;
#endif
#ifdef BYTES
	case 10: lost(flow); break;
#endif
#ifdef HOSTED
	case 11: rtt(flow); break;
	case 12: threshold(flow); break;
#endif
	default: return 2;
	}
	trial->out = flow->out;
	tell(flow, &model);
	trial->model = model;
	return 0;
}

#endif
