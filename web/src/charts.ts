// Figures below the pipe: rates, RTT, packets in flight, window, pacing, shares, and the ribbon of states.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, surface } from './dom';
import { Flow } from './frame';
import { type Look, colorOf } from './looks';
import type { Checked } from './protocol';
import type { Samples } from './samples';
import { PACKET_BITS, bdpPackets, truthAt } from './truth';

/** Points of a line at most. Ours: about one a pixel on a phone. */
const POINTS_MAX = 360;
/** Packets of the link over which rates are averaged at least. Ours: a packet more or less is an eighth. */
const RATE_PACKETS = 8;
const HEIGHT = 150;

interface Range { from: number; to: number }
interface Context { samples: Samples; checked: Checked; rows: number[]; lag: number }
interface Kind {
  id: string; title: string; unit: string;
  value(context: Context, index: number, flow: number): number;
  reference?: { name: string; value(context: Context, t_ns: number): number };
}

/** Received bits of a flow in the round trip before a sample. */
function received({ samples, rows, lag }: Context, index: number, flow: number): [number, number] {
  const row = rows[index];
  let before = row;
  const until = samples.time(row) - lag;
  if (until > 0) {
    before = Math.max(samples.after(until) - 1, 0);
  } else before = 0;
  const span = samples.time(row) - samples.time(before);
  return [samples.flow(row, flow, Flow.ReceivedBits) - samples.flow(before, flow, Flow.ReceivedBits), span];
}

const KINDS: Kind[] = [
  {
    id: 'rate', title: 'Delivered', unit: 'Mbit/s',
    value(context, index, flow) {
      const [bits, span] = received(context, index, flow);
      return span > 0 ? (bits / span) * 1e3 : NaN;
    },
    reference: { name: 'link', value: ({ checked }, t) => truthAt(checked, t).rate_bps / 1e6 },
  },
  {
    id: 'rtt', title: 'RTT', unit: 'ms',
    value: ({ samples, rows }, index, flow) => samples.flow(rows[index], flow, Flow.Rtt) / 1e6 || NaN,
    reference: { name: 'without queue', value: ({ checked }, t) => truthAt(checked, t).rtt_ns / 1e6 },
  },
  {
    id: 'inflight', title: 'In flight', unit: 'packets',
    value: ({ samples, rows }, index, flow) => samples.flow(rows[index], flow, Flow.InFlight),
    reference: { name: 'BDP', value: ({ checked }, t) => bdpPackets(truthAt(checked, t)) },
  },
  {
    id: 'cwnd', title: 'Congestion window', unit: 'packets',
    value: ({ samples, rows }, index, flow) => samples.flow(rows[index], flow, Flow.Cwnd),
    reference: { name: 'BDP', value: ({ checked }, t) => bdpPackets(truthAt(checked, t)) },
  },
  {
    id: 'pacing', title: 'Pacing rate', unit: 'Mbit/s',
    value: ({ samples, rows }, index, flow) => samples.flow(rows[index], flow, Flow.Pacing) / 1e6,
    reference: { name: 'link', value: ({ checked }, t) => truthAt(checked, t).rate_bps / 1e6 },
  },
  {
    id: 'share', title: 'Share of what is delivered', unit: '%',
    value(context, index, flow) {
      const own = received(context, index, flow)[0];
      let all = 0;
      for (let other = 0; other < context.samples.flows; other++) all += received(context, index, other)[0];
      return all > 0 ? (100 * own) / all : NaN;
    },
    reference: {
      name: 'equal', value: ({ checked }, t) => 100 / Math.max(1, checked.flows.filter(({ start_ns }) => start_ns <= t).length),
    },
  },
];

/** One figure of uPlot. */
class Chart {
  readonly figure: HTMLElement;
  private readonly box = h('div', { class: 'plot' });
  private plot: any = null;
  private width = 0;

  constructor(readonly kind: Kind, private readonly looks: Look[]) {
    const unit = h('span', { class: 'unit' }, kind.unit);
    const reference = kind.reference && h('span', { class: 'reference' }, `┄ ${kind.reference.name}`);
    this.figure = h('figure', { class: 'chart', 'data-kind': kind.id }, h('figcaption', {}, h('b', {}, kind.title), ' ', unit, reference), this.box);
  }

  /** Draws the samples of a range. */
  draw(context: Context, range: Range): void {
    const width = this.box.clientWidth;
    if (width < 60) return;
    const xs = context.rows.map((row) => context.samples.time(row) / 1e9);
    const lines = this.looks.map((_, flow) => context.rows.map((_row, index) => {
      const value = this.kind.value(context, index, flow);
      return Number.isFinite(value) ? value : null;
    }));
    const { reference } = this.kind;
    if (reference) lines.push(context.rows.map((row) => reference.value(context, context.samples.time(row))));
    const data = [xs, ...lines];
    if (!this.plot) this.plot = new uPlot(this.options(width), data, this.box);
    else if (width !== this.width) this.plot.setSize({ width, height: HEIGHT });
    this.width = width;
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale('x', { min: range.from / 1e9, max: range.to / 1e9 });
    });
  }

  private options(width: number): unknown {
    const axis = { stroke: () => cssColor('--soft'), grid: { stroke: () => cssColor('--grid'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
    const line = (look: Look) => ({ stroke: () => colorOf(look), width: 1.8, dash: look.dash, points: { show: false }, spanGaps: false });
    const reference = { stroke: () => cssColor('--soft'), width: 1.2, dash: [5, 4], points: { show: false } };
    return {
      width, height: HEIGHT, legend: { show: false }, cursor: { show: false }, pxAlign: false,
      scales: { x: { time: false }, y: { range: (_: unknown, _low: number, high: number) => [0, (high || 1) * 1.12] } },
      axes: [{ ...axis, size: 26, values: (_: unknown, ticks: number[]) => ticks.map((t) => `${Number(t.toFixed(6))} s`) },
        { ...axis, size: 46, values: (_: unknown, ticks: number[]) => ticks.map(short) }],
      series: [{}, ...this.looks.map(line), ...(this.kind.reference ? [reference] : [])],
    };
  }

  free(): void {
    this.plot?.destroy();
  }
}

/** A number for an axis: thousands as k, from 10,000 on. */
const short = (value: number) => (value >= 10_000 ? `${Number((value / 1000).toFixed(1))}k` : String(Number(value.toPrecision(6))));

/** A row for each flow, with the spans of its states. */
class Ribbon {
  readonly canvas = h('canvas', { class: 'ribbon', role: 'img', 'aria-label': 'states of each flow over time' });
  readonly legend = h('p', { class: 'states' });
  readonly figure = h('figure', { class: 'chart wide', 'data-kind': 'states' }, h('figcaption', {}, h('b', {}, 'States')), this.canvas, this.legend);
  private known = '';

  constructor(private readonly looks: Look[], private readonly states: string[]) {
    this.canvas.style.height = `${Math.min(looks.length, 8) * 24 + 4}px`;
  }

  draw({ samples, rows }: Context, range: Range): void {
    const { c, w, h: height } = surface(this.canvas);
    c.clearRect(0, 0, w, height);
    const x = (t: number) => 22 + ((t - range.from) / (range.to - range.from)) * (w - 22);
    const seen = new Set<string>();
    this.looks.slice(0, 8).forEach((look, flow) => {
      const y = flow * 24 + 2;
      c.fillStyle = colorOf(look);
      c.fillRect(0, y + 1, 16, 18);
      c.fillStyle = cssColor('--page');
      c.font = '700 11px system-ui, sans-serif';
      c.fillText(look.letter, 4, y + 14);
      let index = 0;
      const stateOf = (row: number) => (samples.flow(row, flow, Flow.Sent) > 0 ? samples.flow(row, flow, Flow.State) : -1);
      while (index < rows.length) {
        const state = stateOf(rows[index]);
        let end = index + 1;
        while (end < rows.length && stateOf(rows[end]) === state) end++;
        if (state >= 0) {
          const name = this.states[state] ?? '';
          seen.add(name);
          const until = samples.time(rows[Math.min(end, rows.length - 1)]);
          this.span(c, x(samples.time(rows[index])), x(until), y, name);
        }
        index = end;
      }
    });
    this.list([...seen].sort());
  }

  private span(c: CanvasRenderingContext2D, from: number, to: number, y: number, name: string): void {
    const look = stateLook(name);
    const width = Math.max(to - from, 1);
    c.fillStyle = look.fill;
    c.fillRect(from, y, width, 20);
    c.font = '11px system-ui, sans-serif';
    const text = c.measureText(look.label).width;
    if (text + 8 < width) {
      c.fillStyle = look.ink;
      c.fillText(look.label, from + 4, y + 14);
    }
  }

  private list(names: string[]): void {
    const key = names.join() + isDark();
    if (key === this.known) return;
    this.known = key;
    this.legend.replaceChildren(...names.map((name) => {
      const look = stateLook(name);
      const swatch = h('i', {});
      swatch.style.background = look.fill;
      return h('span', {}, swatch, look.label);
    }));
  }
}

export class Charts {
  readonly root = h('div', { class: 'charts' });
  private charts: Chart[];
  private readonly ribbon: Ribbon;
  private turn = 0;
  private drawn: string[] = [];

  constructor(looks: Look[], states: string[], kinds?: string[]) {
    this.charts = KINDS.filter(({ id }) => (kinds ? kinds.includes(id) : id !== 'share' || looks.length > 1)).map((kind) => new Chart(kind, looks));
    this.ribbon = new Ribbon(looks, states);
    this.root.append(this.ribbon.figure, ...this.charts.map(({ figure }) => figure));
  }

  /** Draws one figure, so that no frame is long; `all` draws every one. */
  draw(samples: Samples, checked: Checked, range: Range, all = false): void {
    if (samples.count < 2) return;
    const context = this.context(samples, checked, range);
    const key = `${context.rows[0]} ${context.rows[context.rows.length - 1]} ${range.from} ${range.to} ${isDark()} ${this.root.clientWidth}`;
    const count = this.charts.length + 1;
    for (let turns = all ? count : 1; turns > 0; turns--) {
      this.turn = (this.turn + 1) % count;
      if (this.drawn[this.turn] === key) continue;
      this.drawn[this.turn] = key;
      if (this.turn === 0) this.ribbon.draw(context, range);
      else this.charts[this.turn - 1].draw(context, range);
    }
  }

  private context(samples: Samples, checked: Checked, range: Range): Context {
    const first = Math.max(samples.after(range.from) - 1, 0);
    const last = samples.after(range.to);
    // The stride is a power of two, and points stay where they are while the range moves on.
    let stride = 1;
    while ((last - first) / stride > POINTS_MAX) stride *= 2;
    const rows: number[] = [];
    for (let row = Math.floor(first / stride) * stride; row < last; row += stride) rows.push(row);
    if (rows.length && rows[rows.length - 1] !== last - 1) rows.push(last - 1);
    const truth = truthAt(checked, range.to);
    const packets = RATE_PACKETS * PACKET_BITS * 1e9 / truth.rate_bps;
    return { samples, checked, rows, lag: Math.max(truth.rtt_ns * 2, packets, (range.to - range.from) / 60) };
  }

  free(): void {
    this.charts.forEach((chart) => chart.free());
    this.charts = [];
  }
}
