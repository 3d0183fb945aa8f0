// Situations by name. What no preset of the scenario language gives is ours, chosen so that the effect is in the picture.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Given } from './protocol';

export interface Situation { name: string; title: string; what: string; given: Given }

const of = (name: string, title: string, what: string, keys: Record<string, string>, flows: string[]): Situation =>
  ({ name, title, what, given: { keys: Object.entries(keys), flows } });

export const SITUATIONS: Situation[] = [
  of('first', 'BBRv3 and CUBIC on one link', 'In a buffer of one BDP, BBRv3 keeps most of the link.',
    { rate: '20mbit', rtt: '40ms', buffer: '1bdp', duration: '20s' }, ['bbr3', 'cubic@4s']),
  of('cable', 'Cable modem, deep buffer', 'An upload without AQM: CUBIC holds some 200 ms of queue. Put BBRv3 in its place.',
    { path: 'cable', duration: '30s' }, ['cubic']),
  of('wifi', 'Wi-Fi, aggregated ACKs', 'ACKs wait for the channel and arrive in bursts.',
    { path: 'wifi', duration: '10s' }, ['bbr3']),
  of('policed', '4G behind a policer', 'A policer drops what exceeds its bucket and delays nothing: BBRv1 gets through, CUBIC hardly.',
    { path: 'policed', duration: '30s' }, ['bbr1', 'cubic@10s']),
  of('geo', 'Geostationary satellite', 'A round trip of 600 ms with some random loss.',
    { path: 'geo', duration: '60s' }, ['bbr3', 'cubic']),
  of('starlink', 'Starlink', 'A low orbit, with jitter and a rate that is shared.', { path: 'starlink', duration: '20s' }, ['bbr3', 'cubic']),
  of('lte', 'LTE on the move', 'A cellular downlink with a deep buffer.', { path: 'lte', duration: '20s' }, ['bbr1', 'cubic@5s']),
  of('datacenter', 'Data centre', 'A rack with 100 µs of round trip and 100 packets of buffer.',
    { path: 'datacenter', duration: '100ms' }, ['bbr3', 'cubic@20ms']),
  of('late', 'A latecomer', 'A second BBRv1 flow arrives when the first has filled the link, and both soon share it.',
    { rate: '20mbit', rtt: '40ms', buffer: '4bdp', duration: '30s' }, ['bbr1', 'bbr1@10s']),
  of('six', 'Six BBRv1 flows in 41 packets', 'Together they overrun a shallow buffer: one packet in seven is dropped.',
    { rate: '100mbit', rtt: '100ms', buffer: '41p', duration: '20s' }, ['bbr1*6']),
  of('loss', 'One per cent of random loss', 'CUBIC takes each loss for congestion; BBRv1 does not.',
    { rate: '20mbit', rtt: '40ms', buffer: '1bdp', loss: '1%', duration: '20s' }, ['bbr1', 'cubic']),
  of('rtts', 'Short and long round trips', 'Of two BBRv1 flows the one with the longer round trip gets more.',
    { rate: '20mbit', rtt: '10ms', buffer: '8bdp', duration: '30s' }, ['bbr1', 'bbr1,rtt=100ms']),
  of('fq', 'Fair queueing', 'fq_codel gives each flow a queue of its own.',
    { rate: '20mbit', rtt: '40ms', buffer: '4bdp', aqm: 'fq_codel', duration: '20s' }, ['bbr1', 'cubic@4s']),
  of('drop', 'The rate falls to a fifth', 'A model that is too high for the path fills the queue until it is corrected.',
    { rate: '50mbit', rtt: '40ms', buffer: '4bdp', schedule: '6s:rate=10mbit;14s:rate=50mbit', duration: '20s' }, ['bbr3']),
];

/** Claims of the catalogue, each by one of its runs: what `bbrlab reproduce` has over all values and seeds. */
export const CLAIMS: Situation[] = [
  of('F2', 'F2: the gain cycle in steady state', 'CACM 2017, figure 2.', { rate: '10mbit', rtt: '40ms', buffer: '4bdp', duration: '9.9s' }, ['bbr1,quantization=0,tso=off']),
  of('F3', 'F3: a bottleneck that doubles and halves', 'CACM 2017, figure 3: 20 Mbit/s from 20 to 33 s.',
    { rate: '10mbit', rtt: '40ms', buffer: '1000p', schedule: '20s:rate=20mbit;33s:rate=10mbit', duration: '50s' }, ['bbr1']),
  of('F6', 'F6: five flows converge', 'CACM 2017, figure 6: a flow joins every two seconds.', { rate: '100mbit', rtt: '10ms', buffer: '4bdp', duration: '50s' }, ['bbr1*5@0s+2s']),
  of('COMPETE', 'COMPETE: against CUBIC', 'CACM 2017: the share depends on the buffer; here it is one BDP.',
    { rate: '20mbit', rtt: '40ms', buffer: '1bdp', duration: '120s' }, ['bbr1', 'cubic']),
  of('POLICER', 'POLICER: a token-bucket policer', 'CACM 2017: BBRv1 finds the policed rate.',
    { rate: '100mbit', rtt: '100ms', buffer: '1bdp', policer: 'rate=10mbit,burst=125kB', duration: '60s' }, ['bbr1,lt_bw=on']),
  of('LATECOMER', 'LATECOMER: a flow that starts late', 'BBRv3, with one BDP of buffer.',
    { rate: '50mbit', rtt: '40ms', buffer: '1bdp', duration: '75s' }, ['bbr3,name=first', 'bbr3@15s,name=late']),
  of('PROBE-RTT', 'PROBE-RTT: its cost', 'BBRv3 alone, with two BDP of buffer.', { rate: '20mbit', rtt: '40ms', buffer: '2bdp', duration: '62s' }, ['bbr3']),
];

/** The draft's test cases that a scenario expresses: their events come at the times of the case's own run. */
export const CASES: Situation[] = DRAFT_CASES.cases.map(({ number, title, demand, keys, flows }) => ({
  name: `case-${number}`, title: `${number}: ${title}`, what: `Case ${number} of the draft's appendix. ${demand.trim()}`, given: { keys, flows },
}));

/** Why the others are not here. */
export const CASES_MISSING: string[] = DRAFT_CASES.others.map(({ number, title, why }) => `${number}, ${title}: ${why}.`);
