// Looks of flows: a hue of the report's palette, a letter and a lane, so that no flow is told by its colour alone.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Algorithm } from './protocol';

export interface Look { letter: string; cc: string; hue: string; dash: number[]; lane: number }

export function looksOf(flows: { cc: string }[], algorithms: Algorithm[]): Look[] {
  const taken = new Set<string>();
  return flows.map(({ cc }, index) => {
    const own = algorithms.find(({ name }) => name === cc)?.hue ?? 'teal';
    const hue = [own, ...CYCLE].find((name) => !taken.has(name)) ?? CYCLE[index % CYCLE.length];
    taken.add(hue);
    const letter = index < 26 ? String.fromCharCode(65 + index) : String(index + 1);
    return { letter, cc, hue, dash: DASHES[index % DASHES.length], lane: (index + 0.5) / flows.length };
  });
}

export function colorOf(look: Look): string {
  return HUES[look.hue][isDark() ? 1 : 0];
}
