// What the path really is at a time: its scenario, and the changes until then.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Checked } from './protocol';

export interface Truth { rate_bps: number; rtt_ns: number; buffer_packets: number }

export function truthAt(checked: Checked, t_ns: number): Truth {
  const truth = { rate_bps: checked.rate_bps, rtt_ns: checked.rtt_ns, buffer_packets: checked.buffer_packets };
  for (const change of checked.changes) {
    if (change.at_ns > t_ns) break;
    truth.rate_bps = change.rate_bps ?? truth.rate_bps;
    truth.rtt_ns = change.rtt_ns ?? truth.rtt_ns;
    truth.buffer_packets = change.buffer_packets ?? truth.buffer_packets;
  }
  return truth;
}

/** Bits of a full packet, and of its payload. */
export const PACKET_BITS = 1514 * 8;
export const PAYLOAD_BITS = 1448 * 8;

/** Full packets that fill the path without a queue. */
export const bdpPackets = ({ rate_bps, rtt_ns }: Truth) => (rate_bps * rtt_ns) / 1e9 / PACKET_BITS;
