// The landing page's picture: one run of the real algorithms, over and over.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { isStill } from './dom';
import { Engine } from './engine';
import { looksOf } from './looks';
import { Pipe } from './pipe';
import type { Checked, Given, Shown, Tables } from './protocol';
import { truthAt } from './truth';

const GIVEN: Given = { keys: [['rate', '20mbit'], ['rtt', '40ms'], ['buffer', '2bdp'], ['duration', '10s']], flows: ['bbr3', 'cubic@500ms'] };
const SPEED = 1 / 30;
/** The picture begins when both flows send, and ends before the run does, in nanoseconds. */
const [FROM, TO] = [1.2e9, 4e9];

async function main(): Promise<void> {
  const engine = new Engine('play/');
  const tables = await engine.ask<Tables>({ type: 'tables' });
  const checked = await engine.ask<Checked>({ type: 'check', given: GIVEN });
  await engine.ask<Shown>({ type: 'open', slots: [{ given: GIVEN }], grid_ns: 1e9, duration_ns: checked.duration_ns });
  const pipe = new Pipe();
  pipe.setFlows(looksOf(checked.flows, tables.algorithms), tables.states);
  document.getElementById('picture')!.append(pipe.canvas);
  let [clock, last, isBusy] = [FROM, performance.now(), false];
  const show = async () => {
    isBusy = true;
    const shown = await engine.ask<Shown>({ type: 'to', t_ns: clock });
    pipe.draw(shown.frames[0], truthAt(checked, shown.now_ns), false);
    isBusy = false;
  };
  await show();
  if (isStill()) return;
  const picture = (wall: number) => {
    requestAnimationFrame(picture);
    clock += Math.min(wall - last, 100) * 1e6 * SPEED;
    last = wall;
    if (clock > TO) clock = FROM;
    if (!isBusy) void show();
  };
  requestAnimationFrame(picture);
}

main().catch(() => { document.getElementById('caption')!.hidden = true; });
