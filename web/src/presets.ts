// Situations by name. What no preset of the scenario language gives is ours, chosen so that the effect is in the picture.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Given } from './protocol';

export interface Situation { name: string; title: string; what: string; given: Given }

const of = (name: string, title: string, what: string, keys: Record<string, string>, flows: string[]): Situation =>
  ({ name, title, what, given: { keys: Object.entries(keys), flows } });

export const SITUATIONS: Situation[] = [
  of('first', 'BBRv3 and CUBIC on one link', 'CUBIC fills the buffer, and BBRv3 has to share it.',
    { rate: '20mbit', rtt: '40ms', buffer: '1bdp', duration: '20s' }, ['bbr3', 'cubic@4s']),
  of('cable', 'Cable modem, deep buffer', 'An upload without AQM: CUBIC holds a queue of 250 ms, BBRv3 a small one.',
    { path: 'cable', duration: '30s' }, ['cubic', 'bbr3@10s']),
  of('wifi', 'Wi-Fi, aggregated ACKs', 'ACKs wait for the channel and arrive in bursts.',
    { path: 'wifi', duration: '10s' }, ['bbr3']),
  of('policed', '4G behind a policer', 'A policer drops what exceeds its bucket and delays nothing.',
    { path: 'policed', duration: '30s' }, ['bbr1', 'cubic@10s']),
  of('geo', 'Geostationary satellite', 'A round trip of 600 ms with some random loss.',
    { path: 'geo', duration: '60s' }, ['bbr3', 'cubic']),
  of('starlink', 'Starlink', 'A low orbit, with jitter and a rate that is shared.', { path: 'starlink', duration: '20s' }, ['bbr3', 'cubic']),
  of('lte', 'LTE on the move', 'A cellular downlink with a deep buffer.', { path: 'lte', duration: '20s' }, ['bbr1', 'cubic@5s']),
  of('datacenter', 'Data centre', 'A rack with 100 µs of round trip and 100 packets of buffer.',
    { path: 'datacenter', duration: '100ms' }, ['bbr3', 'cubic@20ms']),
  of('late', 'A latecomer', 'A second BBRv1 flow arrives when the first has filled the link.',
    { rate: '20mbit', rtt: '40ms', buffer: '4bdp', duration: '30s' }, ['bbr1', 'bbr1@10s']),
  of('six', 'Six BBRv1 flows in 41 packets', 'Each probes for more, and a shallow buffer overflows.',
    { rate: '100mbit', rtt: '100ms', buffer: '41p', duration: '20s' }, ['bbr1*6']),
  of('loss', 'One per cent of random loss', 'CUBIC takes each loss for congestion; BBRv1 does not.',
    { rate: '20mbit', rtt: '40ms', buffer: '1bdp', loss: '1%', duration: '20s' }, ['bbr1', 'cubic']),
  of('rtts', 'Short and long round trips', 'Of two BBRv1 flows the one with the longer round trip gets more.',
    { rate: '20mbit', rtt: '10ms', buffer: '8bdp', duration: '30s' }, ['bbr1', 'bbr1,rtt=100ms']),
  of('fq', 'Fair queueing', 'fq_codel gives each flow a queue of its own.',
    { rate: '20mbit', rtt: '40ms', buffer: '4bdp', aqm: 'fq_codel', duration: '20s' }, ['bbr1', 'cubic@4s']),
  of('drop', 'The rate falls to a fifth', 'A model of the path that is too high fills the queue.',
    { rate: '50mbit', rtt: '40ms', buffer: '4bdp', schedule: '6s:rate=10mbit;14s:rate=50mbit', duration: '20s' }, ['bbr3']),
];
