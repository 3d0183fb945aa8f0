// You are the controller: thirty seconds on a link that changes, shared with BBRv3 and CUBIC.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, put } from './dom';
import type { Player, SlotView } from './player';
import { PACKET_BITS, PAYLOAD_BITS, truthAt } from './truth';
import { countShown, rateShown, timeShown } from './units';

const RATES_MBIT = [0.5, 60];
const STEPS = 200;
/** The path of the game. Ours: changes that a person can follow. */
const KEYS: [string, string][] = [
  ['rate', '20mbit'], ['rtt', '60ms'], ['buffer', '1bdp'], ['duration', '30s'],
  ['schedule', '7s:rate=8mbit;14s:rate=30mbit;20s:rate=30mbit,rtt=120ms;25s:rate=15mbit,rtt=60ms'],
];
const NAMES = ['you', 'bbr3', 'cubic'];

/** Parts of a score, each at most 1: goodput over the fair share, lowest over mean RTT, goodput of the others over their fair shares. */
interface Score { goodput: number; delay: number; others: number; total: number }

/** Scores of all flows of a run until now: 100 is a fair share of the link without a queue, while the others have theirs. */
export function scoresOf(player: Player, view: SlotView): Score[] {
  let [capacity, base_ns] = [0, 0];
  const slices = 200;
  for (let slice = 0; slice < slices; slice++) {
    const truth = truthAt(view.checked, (player.now_ns * (slice + 0.5)) / slices);
    capacity += (truth.rate_bps * PAYLOAD_BITS * player.now_ns) / PACKET_BITS / 1e9 / slices;
    base_ns += truth.rtt_ns / slices;
  }
  const flows = view.looks.map((_, flow) => player.figures(view, flow));
  const fair = capacity / flows.length;
  const all = flows.reduce((sum, { bits }) => sum + bits, 0);
  const atMostOne = (value: number) => (value > 0 ? Math.min(value, 1) : 0);
  return flows.map(({ bits, rtt_ns }) => {
    const parts = { goodput: atMostOne(bits / fair), delay: atMostOne(base_ns / rtt_ns), others: atMostOne((all - bits) / (capacity - fair)) };
    return { ...parts, total: 100 * parts.goodput * parts.delay * parts.others };
  });
}

export class Game {
  private readonly slider = h('input', { type: 'range', id: 'hand', min: 0, max: STEPS, value: 90, 'aria-describedby': 'hand-help' });
  private readonly rate = h('output', { for: 'hand', class: 'big' });
  private readonly scores = h('div', { class: 'scores' });
  private readonly state = h('p', { class: 'verdict', role: 'status' });
  private isOn = false;
  private isCounted = false;
  private turn = 0;

  constructor(private readonly player: Player, root: HTMLElement, private readonly lay: () => void) {
    this.slider.addEventListener('input', () => this.steer());
    const start = h('button', { type: 'button', class: 'primary', onclick: () => { void this.start(); this.slider.focus(); } }, 'Start again');
    put(root,
      h('div', { class: 'hand' }, h('label', { for: 'hand' }, 'Your sending rate'), this.rate, this.slider,
        h('p', { id: 'hand-help', class: 'soft' }, 'Move the slider, or use the arrow keys. Take a third of the link, without a queue, and leave the others theirs; the path changes four times.'), start),
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
    const inputs: [number, number][] = [[0, this.bps()]];
    await this.player.open([{ given: { keys: KEYS, flows: ['fixed', 'bbr3', 'cubic'] }, hand: 0, inputs }], 0, ['rate', 'rtt']);
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
    const [view] = this.player.views;
    if (this.turn++ % 10 || view?.looks.length !== NAMES.length) return;
    const scores = scoresOf(this.player, view);
    const percent = (part: number) => `${(100 * part).toFixed(0)} %`;
    put(this.scores, ...scores.map(({ total, goodput, delay, others }, flow) => {
      const { rtt_ns, bits, lost } = this.player.figures(view, flow);
      const mean = this.player.now_ns > 0 ? (bits / this.player.now_ns) * 1e9 : 0;
      return h('div', { class: 'score' }, h('span', {}, NAMES[flow]), h('b', {}, total.toFixed(0)),
        h('small', {}, `Goodput ${rateShown(mean)}, ${countShown(lost)} packets lost: ${percent(goodput)} of a fair share`),
        h('small', {}, `RTT ${timeShown(rtt_ns)}: ${percent(delay)} of it without the queue`),
        h('small', {}, `Others: ${percent(others)} of their fair shares`));
    }));
    if (this.player.over && !this.isCounted) {
      this.isCounted = true;
      const beaten = NAMES.slice(1).filter((_, index) => scores[0].total > scores[index + 1].total);
      this.state.textContent = `Your score is ${scores[0].total.toFixed(0)} of 100. ` + (beaten.length ? `You beat ${beaten.join(' and ')}.` : 'Both algorithms were better this time.');
    }
  }
}
