// Ten steps from one packet to a fair share. Each has a run that does what it says, and one thing to try.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Given } from './protocol';

export interface Lesson { title: string; text: string; given: Given; t_s: number; speed: number; hide?: boolean; attempt: { text: string; change?: [string, string]; hide?: boolean } }

const given = (keys: Record<string, string>, flows: string[]): Given => ({ keys: Object.entries(keys), flows });

export const LESSONS: Lesson[] = [
  {
    title: 'A packet and its ACK',
    text: 'A sender on the left puts packets on a path. The narrowest link, the bottleneck, passes one after another. After half a round trip ' +
      'the receiver answers with an ACK, which is all that the sender ever gets back.',
    given: given({ rate: '2mbit', rtt: '100ms', buffer: '20p', duration: '5s' }, ['fixed,cwnd=1']), t_s: 0.1, speed: 0.05,
    attempt: { text: 'Double the round trip to 200 ms: the packet travels twice as long.', change: ['rtt', '200ms'] },
  },
  {
    title: 'A window fills the pipe',
    text: 'With a window of 8 packets, eight are on their way at once. Each ACK lets one more leave. Packets that are long on the wire are wide ' +
      'in the picture, so gaps in the pipe are capacity that nobody uses.',
    given: given({ rate: '2mbit', rtt: '100ms', buffer: '20p', duration: '5s' }, ['fixed,cwnd=8']), t_s: 0.6, speed: 0.05,
    attempt: { text: 'Halve the rate to 1 Mbit/s: now the same eight packets fill the pipe.', change: ['rate', '1mbit'] },
  },
  {
    title: 'The bandwidth-delay product',
    text: 'Rate times round trip is the volume that fills the path without a queue: the BDP. At 2 Mbit/s and 100 ms it is 16.5 packets. ' +
      'A window of 30 does not deliver more; the rest waits in the queue and adds delay.',
    given: given({ rate: '2mbit', rtt: '100ms', buffer: '20p', duration: '5s' }, ['fixed,cwnd=30']), t_s: 1, speed: 0.05,
    attempt: { text: 'Raise the rate to 4 Mbit/s: the BDP doubles and the queue is gone.', change: ['rate', '4mbit'] },
  },
  {
    title: 'Loss-based control fills the buffer',
    text: 'CUBIC raises its window until a packet is dropped. So it finds the end of the buffer, not of the pipe: the queue is full or nearly so, and ' +
      'everybody on this link waits in it.',
    given: given({ rate: '10mbit', rtt: '40ms', buffer: '4bdp', duration: '30s' }, ['cubic']), t_s: 6, speed: 0.3,
    attempt: { text: 'Make the buffer four times as deep: the delay follows.', change: ['buffer', '16bdp'] },
  },
  {
    title: 'BBR measures instead',
    text: 'BBR measures two properties of the path: the highest rate at which data is delivered, and the lowest round trip. Their product is the BDP. ' +
      'It paces its packets at the measured rate and keeps about that volume in flight.',
    given: given({ rate: '10mbit', rtt: '40ms', buffer: '4bdp', duration: '30s' }, ['bbr3']), t_s: 3, speed: 0.1,
    attempt: { text: 'Cut the rate to 3 Mbit/s and watch the estimate follow.', change: ['rate', '3mbit'] },
  },
  {
    title: 'Startup and Drain',
    text: 'At first nothing is known. Startup doubles the rate each round trip until the delivery rate stops growing. By then there is a queue of its own making, ' +
      'and Drain sends slower until it is gone.',
    given: given({ rate: '10mbit', rtt: '40ms', buffer: '4bdp', duration: '10s' }, ['bbr3']), t_s: 0.05, speed: 0.03,
    attempt: { text: 'Cut the buffer to a tenth of the BDP: now Startup loses packets.', change: ['buffer', '0.1bdp'] },
  },
  {
    title: 'Probing for more',
    text: 'A path may get faster, and no ACK reports it. Now and then ProbeBW sends more than it has measured, in the state Up. If more is delivered, the estimate grows; ' +
      'if a queue builds or packets are lost, it goes Down again and cruises.',
    given: given({ rate: '10mbit', rtt: '40ms', buffer: '2bdp', duration: '30s' }, ['bbr3']), t_s: 3.4, speed: 0.1,
    attempt: { text: 'Double the rate to 20 Mbit/s and see how long BBR takes to find it.', change: ['rate', '20mbit'] },
  },
  {
    title: 'ProbeRTT',
    text: 'The lowest round trip can be seen only while there is no queue. If none as low has been seen for some seconds, BBR reduces what it has in flight for a moment. ' +
      'Flows that do so together see the path as it is.',
    given: given({ rate: '10mbit', rtt: '40ms', buffer: '4bdp', duration: '30s' }, ['bbr1', 'bbr1@2s']), t_s: 9.8, speed: 0.1,
    attempt: { text: 'Lengthen the path to 80 ms: the old minimum holds until it expires.', change: ['rtt', '80ms'] },
  },
  {
    title: 'What a sender cannot see',
    text: 'You have seen queue and bottleneck all the time. A sender sees neither. Here is all that it gets, its ACKs, and the model that it makes of them beside the truth.',
    given: given({ rate: '10mbit', rtt: '40ms', buffer: '2bdp', duration: '30s' }, ['bbr3', 'cubic@2s']), t_s: 4, speed: 0.1, hide: true,
    attempt: { text: 'Show the path again (key H), and compare.', hide: false },
  },
  {
    title: 'Sharing with others',
    text: 'Several flows share one queue, and none has any sign of the others but their effect. Who gets how much depends on both algorithms, on the buffer and on the round trips. ' +
      'That is what this lab measures, with the real algorithms.',
    given: given({ rate: '20mbit', rtt: '40ms', buffer: '2bdp', duration: '30s' }, ['bbr3', 'cubic@3s', 'bbr1@8s']), t_s: 9, speed: 0.3,
    attempt: { text: 'Shrink the buffer to half a BDP: more is lost, and the shares change.', change: ['buffer', '0.5bdp'] },
  },
];
