// The models of the senders beside the truth, as a table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, put } from './dom';
import { Flow, Head, ofFlow } from './frame';
import { colorOf } from './looks';
import type { SlotView } from './player';
import { PACKET_BITS, PAYLOAD_BITS, bdpPackets, truthAt } from './truth';
import { countShown, rateShown, timeShown } from './units';

const packets = (value: number) => (Number.isFinite(value) ? `${countShown(value)} packets` : 'no bound');

export function showModel(root: HTMLElement, view: SlotView, now_ns: number): void {
  const { frame, looks, checked } = view;
  const truth = truthAt(checked, now_ns);
  const payload = (truth.rate_bps * PAYLOAD_BITS) / PACKET_BITS;
  const delay = (frame[Head.QueueBytes] * 8e9) / Math.max(truth.rate_bps, 1);
  const rows: [string, string, (flow: number) => string][] = [
    ['Bandwidth', `${rateShown(payload)} for all flows`, (flow) => rateShown(ofFlow(frame, flow, Flow.Bw))],
    ['Minimum RTT', timeShown(truth.rtt_ns), (flow) => timeShown(ofFlow(frame, flow, Flow.MinRtt))],
    ['RTT now', timeShown(truth.rtt_ns + delay), (flow) => timeShown(ofFlow(frame, flow, Flow.Rtt))],
    ['BDP, in flight', `${countShown(bdpPackets(truth))} packets`, (flow) => `${countShown(ofFlow(frame, flow, Flow.InFlight))} packets`],
    ['Window', '–', (flow) => packets(ofFlow(frame, flow, Flow.Cwnd))],
    ['Long-term bound', '–', (flow) => packets(ofFlow(frame, flow, Flow.InflightLong))],
    ['Short-term bound', '–', (flow) => packets(ofFlow(frame, flow, Flow.InflightShort))],
    ['Bandwidth bound', '–', (flow) => (Number.isFinite(ofFlow(frame, flow, Flow.BwShort)) ? rateShown(ofFlow(frame, flow, Flow.BwShort)) : 'no bound')],
  ];
  const shown = looks.slice(0, 6);
  const heads = shown.map((look) => {
    const key = h('i', { class: 'key' }, look.letter);
    key.style.background = colorOf(look);
    return h('th', { scope: 'col' }, key, ` ${look.cc}`);
  });
  put(root, h('table', { class: 'model' },
    h('caption', {}, 'Model of each sender beside the truth'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Estimate'), ...heads, h('th', { scope: 'col' }, 'Truth'))),
    h('tbody', {}, ...rows.map(([name, true_, value]) =>
      h('tr', {}, h('th', { scope: 'row' }, name), ...shown.map((_, flow) => h('td', {}, value(flow))), h('td', { class: 'truth' }, true_))))));
}
