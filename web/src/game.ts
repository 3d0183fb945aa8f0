// You are the controller: thirty seconds on a path that changes, beside BBRv3 and CUBIC on paths of their own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, put } from './dom';
import type { Player, SlotView } from './player';
import type { Given } from './protocol';
import { get } from './state';
import { PACKET_BITS, PAYLOAD_BITS, truthAt } from './truth';
import { countShown, rateShown, timeShown } from './units';

const RATES_MBIT = [0.5, 60];
const STEPS = 200;
/** The path of the game. Ours: changes that a person can follow. */
const KEYS: [string, string][] = [
  ['rate', '20mbit'], ['rtt', '60ms'], ['buffer', '3bdp'], ['duration', '30s'],
  ['schedule', '7s:rate=8mbit;14s:rate=30mbit;20s:rate=30mbit,rtt=120ms;25s:rate=15mbit,rtt=60ms'],
];
const NAMES = ['you', 'bbr3', 'cubic'];

/** Kleinrock's power, so that a full link without a queue has 100: the share of the capacity over the RTT's factor. */
export function scoreOf(player: Player, view: SlotView): number {
  const { rtt_ns, bits } = player.figures(view);
  let [capacity, base] = [0, 0];
  const slices = 200;
  for (let slice = 0; slice < slices; slice++) {
    const truth = truthAt(view.checked, (player.now_ns * (slice + 0.5)) / slices);
    capacity += (truth.rate_bps * PAYLOAD_BITS * player.now_ns) / PACKET_BITS / 1e9 / slices;
    base += truth.rtt_ns / slices;
  }
  return capacity > 0 && rtt_ns > 0 ? 100 * Math.min(bits / capacity, 1) * Math.min(base / rtt_ns, 1) : 0;
}

export class Game {
  private readonly slider = h('input', { type: 'range', id: 'hand', min: 0, max: STEPS, value: 90, 'aria-describedby': 'hand-help' });
  private readonly rate = h('output', { for: 'hand', class: 'big' });
  private readonly scores = h('div', { class: 'scores' });
  private readonly state = h('p', { class: 'verdict', role: 'status' });
  private isOn = false;
  private isCounted = false;
  private turn = 0;

  constructor(private readonly player: Player, root: HTMLElement, private readonly given: Given, private readonly lay: () => void) {
    this.slider.addEventListener('input', () => this.steer());
    const start = h('button', { type: 'button', class: 'primary', onclick: () => { void this.start(); this.slider.focus(); } }, 'Start again');
    put(root,
      h('div', { class: 'hand' }, h('label', { for: 'hand' }, 'Your sending rate'), this.rate, this.slider,
        h('p', { id: 'hand-help', class: 'soft' }, 'Move the slider, or use the arrow keys. Fill the link but not the queue; the path changes four times.'), start),
      this.scores, this.state);
  }

  private bps(): number {
    const [low, high] = RATES_MBIT;
    return low * 1e6 * Math.exp((Math.log(high / low) * Number(this.slider.value)) / STEPS);
  }

  private steer(): void {
    const bps = this.bps();
    this.rate.textContent = rateShown(bps);
    this.slider.setAttribute('aria-valuetext', this.rate.textContent);
    if (this.isOn) this.player.steer(0, bps);
  }

  async start(): Promise<void> {
    this.isOn = false;
    this.isCounted = false;
    this.state.textContent = '';
    const keys = KEYS.map(([key, value]): [string, string] => [key, (key !== 'schedule' && key !== 'duration' && get(this.given, `game_${key}`)) || value]);
    const slots = ['fixed', 'bbr3', 'cubic'].map((flow, index) => ({
      given: { keys, flows: [flow] }, hand: index === 0 ? 0 : undefined, inputs: index === 0 ? [[0, this.bps()] as [number, number]] : undefined,
    }));
    await this.player.open(slots, 0, ['rate', 'rtt']);
    this.player.speed = 1;
    this.lay();
    this.isOn = true;
    this.steer();
    this.player.playing = true;
  }

  stop(): void {
    this.isOn = false;
  }

  /** Shows the scores, some times a second. */
  tick(): void {
    if (this.turn++ % 10 || this.player.views.length !== 3) return;
    const scores = this.player.views.map((view) => scoreOf(this.player, view));
    put(this.scores, ...this.player.views.map((view, index) => {
      const { rtt_ns, bits, lost } = this.player.figures(view);
      const mean = this.player.now_ns > 0 ? (bits / this.player.now_ns) * 1e9 : 0;
      return h('div', { class: 'score' }, h('span', {}, NAMES[index]), h('b', {}, scores[index].toFixed(0)),
        h('small', {}, `${rateShown(mean)}, RTT ${timeShown(rtt_ns)}, ${countShown(lost)} lost`));
    }));
    if (this.player.over && !this.isCounted) {
      this.isCounted = true;
      const beaten = NAMES.slice(1).filter((_, index) => scores[0] > scores[index + 1]);
      this.state.textContent = `Your score is ${scores[0].toFixed(0)} of 100. ` + (beaten.length ? `You beat ${beaten.join(' and ')}.` : 'Both algorithms were better this time.');
    }
  }
}
