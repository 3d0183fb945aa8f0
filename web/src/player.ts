// One clock over one or several runs: play, pause, step, seek, and changes while they run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { Charts } from './charts';
import type { Engine } from './engine';
import { Flow, ofFlow } from './frame';
import { type Look, looksOf } from './looks';
import { Pipe } from './pipe';
import type { Checked, Given, Shown, Slot, StepTo, Tables } from './protocol';
import { Samples } from './samples';
import { truthAt } from './truth';

/** Samples a run has at most, and how many in a round trip. Ours: finer than a pixel of a figure. */
const SAMPLES_MAX = 6000;
const SAMPLES_A_ROUND = 8;
/** Round trips in the range of the figures, unless they show the whole run. */
const ROUNDS_SHOWN = 60;
/** Longest step of the clock, so that a page that was in the background does not jump. */
const STEP_MAX_MS = 100;

export interface SlotView { slot: Slot; checked: Checked; looks: Look[]; samples: Samples; pipe: Pipe; charts: Charts; frame: Float64Array }

export class Player {
  views: SlotView[] = [];
  playing = false;
  speed = 1;
  wholeRun = false;
  hide = false;
  over = false;
  now_ns = 0;
  duration_ns = 1;
  onshown: () => void = () => {};
  onfail: (message: string) => void = () => {};
  /** Time to which the simulation goes: ahead of `now_ns` while a seek is under way. */
  clock = 0;
  /** Time of a seek under way: until then the clock is not held back. */
  private sought = 0;
  private busy: Promise<unknown> = Promise.resolve();
  private waiting = 0;
  private generation = 0;
  private fresh = false;
  /** For the tests: frames drawn, and the longest wait of a change. */
  readonly stats = { frames: 0, firstPacket_ms: 0, change_ms: 0, moved: 0 };

  constructor(private readonly engine: Engine, private readonly tables: Tables) {}

  /** Starts new runs. `until_ns`: time to go to. `kinds`: figures to show. */
  async open(slots: Slot[], until_ns = 0, kinds?: string[]): Promise<void> {
    const generation = ++this.generation;
    const checked = await Promise.all(slots.map(({ given }) => this.engine.ask<Checked>({ type: 'check', given })));
    if (generation !== this.generation) return;
    await this.exclusively(async () => {
      if (generation !== this.generation) return;
      this.duration_ns = Math.min(...checked.map((one) => one.duration_ns));
      const round = Math.min(...checked.map((one) => one.rtt_ns)) || 1e6;
      const grid_ns = Math.max(round / SAMPLES_A_ROUND, this.duration_ns / SAMPLES_MAX);
      const shown = await this.engine.ask<Shown>({ type: 'open', slots, grid_ns, duration_ns: this.duration_ns });
      this.views.forEach(({ charts }) => charts.free());
      this.views = slots.map((slot, index) => this.view(slot, checked[index], shown.frames[index], kinds));
      [this.clock, this.now_ns, this.over] = [Math.min(until_ns, this.duration_ns), 0, false];
      this.sought = this.clock;
      this.take(shown);
    });
  }

  private view(slot: Slot, checked: Checked, frame: Float64Array, kinds?: string[]): SlotView {
    const named = checked.flows.map((flow, index) => (index === slot.hand ? { ...flow, cc: 'you' } : flow));
    const looks = looksOf(named, this.tables.algorithms);
    const pipe = new Pipe();
    pipe.setFlows(looks, this.tables.states);
    const charts = new Charts(looks, this.tables.states, kinds);
    return { slot, checked, looks, samples: new Samples(looks.length), pipe, charts, frame };
  }

  /** Runs one request of the worker after another. */
  private exclusively<T>(work: () => Promise<T>): Promise<T> {
    this.waiting++;
    const done = this.busy.then(work).finally(() => { this.waiting--; });
    this.busy = done.catch((error: Error) => this.onfail(error.message));
    return done;
  }

  private take(shown: Shown): void {
    if (shown.frames.length !== this.views.length) return;
    this.now_ns = shown.now_ns;
    this.over = shown.over;
    this.views.forEach((view, index) => {
      view.frame = shown.frames[index];
      view.samples.append(shown.samples[index]);
    });
    if (!this.stats.firstPacket_ms && shown.now_ns > 0) this.stats.firstPacket_ms = performance.now();
    if (this.over) this.playing = false;
    this.fresh = true;
    this.onshown();
  }

  /** Called for each picture of the browser, `passed_ms` after the last; a first picture may be from before the page's script began. */
  tick(passed_ms: number): void {
    if (this.playing && this.views.length && this.now_ns >= this.sought) {
      // In whole nanoseconds, as the simulation counts: with a fraction it would never arrive, and be asked at each picture of a pause.
      const step_ms = Math.max(0, Math.min(passed_ms, STEP_MAX_MS));
      this.clock = Math.min(Math.round(this.clock + step_ms * 1e6 * this.speed), this.duration_ns);
    }
    if (this.waiting === 0 && this.clock !== this.now_ns && this.views.length && !(this.over && this.clock >= this.now_ns)) {
      const t_ns = this.clock;
      void this.exclusively(async () => {
        const shown = await this.engine.ask<Shown>({ type: 'to', t_ns });
        // A simulation that is slower than the clock holds it back.
        if (this.playing && shown.now_ns >= this.sought && this.clock > shown.now_ns + 2e8 * this.speed) this.clock = shown.now_ns;
        this.take(shown);
      }).catch(() => {});
    }
    this.draw();
  }

  draw(): void {
    for (const { frame, checked, pipe } of this.views) pipe.draw(frame, truthAt(checked, this.now_ns), this.hide);
    const turn = this.views[this.stats.frames % Math.max(this.views.length, 1)];
    if (turn && !this.hide) turn.charts.draw(turn.samples, turn.checked, this.range());
    this.stats.frames++;
    if (this.fresh) this.stats.moved++;
    this.fresh = false;
  }

  /** Range of the figures. */
  range(): { from: number; to: number } {
    if (this.wholeRun) return { from: 0, to: this.duration_ns };
    const rounds = Math.max(...this.views.map(({ checked }) => truthAt(checked, this.now_ns).rtt_ns)) * ROUNDS_SHOWN;
    const length = Math.min(Math.max(rounds, 1e5), this.duration_ns);
    const to = Math.max(this.now_ns, length);
    return { from: to - length, to };
  }

  seek(t_ns: number): void {
    this.clock = Math.max(0, Math.min(Math.round(t_ns), this.duration_ns));
    this.sought = this.clock;
    this.over = false;
  }

  step(flow: number, what: StepTo): void {
    this.playing = false;
    void this.exclusively(async () => {
      const shown = await this.engine.ask<Shown>({ type: 'step', slot: 0, flow, what });
      this.clock = shown.now_ns;
      this.take(shown);
    }).catch(() => {});
  }

  /** Changes the path from now on. `change` returns the new scenario of a run for a change at this time. */
  change(change: (given: Given, at_ns: number) => Given): Promise<void> {
    const asked = performance.now();
    return this.exclusively(async () => {
      const at_ns = (Math.floor(this.now_ns / 1000) + 1) * 1000;
      const slots = this.views.map(({ slot }) => change(slot.given, at_ns));
      const checked = await Promise.all(slots.map((given) => this.engine.ask<Checked>({ type: 'check', given })));
      const shown = await this.engine.ask<Shown>({ type: 'change', slots });
      this.clock = Math.max(this.now_ns, Math.min(this.clock, this.now_ns + 1e6));
      this.views.forEach((view, index) => {
        [view.slot.given, view.checked] = [slots[index], checked[index]];
        view.samples.cut(this.now_ns);
      });
      this.over = false;
      this.take(shown);
      this.stats.change_ms = performance.now() - asked;
    });
  }

  steer(slot: number, rate_bps: number): void {
    void this.exclusively(() => this.engine.ask({ type: 'hand', slot, at_ns: this.now_ns, rate_bps })).catch(() => {});
  }

  /** Mean RTT and payload delivered of a flow, until now. */
  figures(view: SlotView, flow: number): { rtt_ns: number; bits: number; lost: number } {
    const { samples } = view;
    const last = samples.after(this.now_ns);
    let [sum, count] = [0, 0];
    for (let row = 0; row < last; row++) {
      const rtt = samples.flow(row, flow, Flow.Rtt);
      if (rtt > 0) { sum += rtt; count++; }
    }
    return { rtt_ns: count ? sum / count : NaN, bits: ofFlow(view.frame, flow, Flow.ReceivedBits), lost: ofFlow(view.frame, flow, Flow.Lost) };
  }
}
