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
	case INIT: init(flow); break;
	case ACK: one_ack(flow); break;
	case TX_START: tx_start(flow); break;
	case RTO: rto(flow); break;
	case CA_STATE: ca_state(flow); break;
	case UNDO: undo(flow); break;
	case MSS: mss(flow); break;
	case MAX_RATE: max_rate(flow); break;
#ifdef V3
	case TLP_ACK: tlp_ack(flow); break;
	case TLP_RECOVERY: tlp_recovery(flow); break;
	case LOST: lost(flow); break;
#endif
#ifdef HOSTED
	case RTT: rtt(flow); break;
	case THRESHOLD: threshold(flow); break;
#endif
	default: return 2;
	}
	trial->out = flow->out;
	tell(flow, &model);
	trial->model = model;
	return 0;
}

#endif
