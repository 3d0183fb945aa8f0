// Controls of the path and of the flows. Each slider has a field beside it that takes every value of the scenario language.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { h, put } from './dom';
import type { Algorithm, Given, Parameter, Tables } from './protocol';
import { get } from './state';
import { parsed, rateText, timeText } from './units';

/** Keys whose changes the schedule has: they take effect while a run goes on. */
export const LIVE = ['rate', 'rtt', 'buffer', 'loss'];

interface Scale { steps: number; text(step: number): string; step(text: string): number }

function logScale(min: number, max: number, steps: number, text: (value: number) => string, value: (text: string) => number, zero = false): Scale {
  const span = Math.log(max / min);
  return {
    steps,
    text: (step) => (zero && step === 0 ? '0' : text(min * Math.exp((span * step) / steps))),
    step: (words) => {
      const known = value(words);
      if (!(known > 0)) return zero ? 0 : NaN;
      return Math.max(0, Math.min(steps, Math.round((steps * Math.log(known / min)) / span)));
    },
  };
}

/** Two digits, so that a slider gives values that people write. */
const two = (value: number) => Number(value.toPrecision(2));
const share = (text: string) => (text.endsWith('%') ? Number(text.slice(0, -1)) : Number(text) * 100);

const SCALES: Record<string, Scale> = {
  rate: logScale(2e5, 1e10, 120, (value) => rateText(two(value)), parsed),
  rtt: logScale(5e4, 1e9, 120, (value) => timeText(two(value)), parsed),
  buffer: logScale(0.05, 64, 100, (value) => `${two(value)}bdp`, (text) => Number(/^([\d.]+)bdp$/.exec(text)?.[1] ?? NaN)),
  loss: logScale(0.001, 20, 60, (value) => `${two(value)}%`, share, true),
  jitter: logScale(5e4, 1e8, 60, (value) => timeText(two(value)), parsed, true),
  ack_aggregation: logScale(5e4, 1e8, 60, (value) => timeText(two(value)), parsed, true),
};

const NAMES: Record<string, string> = {
  rate: 'Rate', rtt: 'Round trip', buffer: 'Buffer', loss: 'Random loss', jitter: 'Jitter', aqm: 'Queue (AQM)', ack_aggregation: 'ACKs held',
  duration: 'Duration', seed: 'Seed',
};
const AQMS = ['droptail', 'codel', 'fq_codel', 'cake', 'pie', 'red'];

export interface Actions {
  /** Sets a key. Rejects with the line to show. */
  setKey(key: string, value: string): Promise<void>;
  setFlows(flows: string[]): Promise<void>;
}

/** Shows the line of an error below a field. */
function guarded(row: HTMLElement, work: Promise<void>): void {
  const line = row.querySelector('.error')!;
  const field = row.querySelector('input[type=text], select, textarea');
  work.then(
    () => { line.textContent = ''; field?.removeAttribute('aria-invalid'); },
    (error: Error) => { line.textContent = error.message; field?.setAttribute('aria-invalid', 'true'); },
  );
}

function errorLine(id: string): HTMLElement {
  return h('p', { class: 'error', id: `${id}-error`, role: 'status' });
}

export class PathControls {
  readonly root = h('div', { class: 'path-controls' });
  private readonly rows = new Map<string, { slider?: HTMLInputElement; field: HTMLInputElement | HTMLSelectElement }>();

  constructor(private readonly tables: Tables, private readonly actions: Actions) {
    for (const key of ['rate', 'rtt', 'buffer', 'loss', 'jitter']) this.root.append(this.slider(key));
    this.root.append(this.aqm(), this.slider('ack_aggregation'));
    this.root.append(h('div', { class: 'two' }, this.field('duration'), this.field('seed')));
  }

  /** Shows the values in force. `now`: those of the schedule at the present time. */
  show(given: Given, filled: Record<string, unknown>, now: Record<string, string>): void {
    for (const [key, { slider, field }] of this.rows) {
      const value = now[key] ?? get(given, key) ?? (filled[key] === undefined || filled[key] === null ? '' : String(filled[key]));
      if (document.activeElement !== field) field.value = key === 'aqm' ? this.option(field as HTMLSelectElement, value) : value;
      if (slider && document.activeElement !== slider) {
        const step = SCALES[key].step(value);
        if (Number.isFinite(step)) slider.value = String(step);
      }
      slider?.setAttribute('aria-valuetext', value);
    }
  }

  private option(select: HTMLSelectElement, value: string): string {
    if (![...select.options].some((option) => option.value === value)) select.append(h('option', { value }, value));
    return value;
  }

  private help(key: string): string {
    return this.tables.keys.find(({ name }) => name === key)?.help ?? '';
  }

  private slider(key: string): HTMLElement {
    const scale = SCALES[key];
    const id = `key-${key}`;
    const slider = h('input', { type: 'range', id, min: 0, max: scale.steps, step: 1 });
    const field = h('input', { type: 'text', 'aria-label': `${NAMES[key]}, exact value`, 'aria-describedby': `${id}-error`, spellcheck: 'false', autocomplete: 'off' });
    const row = h('div', { class: 'row' }, h('label', { for: id, title: this.help(key) }, NAMES[key]), slider, field, errorLine(id));
    let last = 0;
    let timer = 0;
    const send = () => {
      last = performance.now();
      guarded(row, this.actions.setKey(key, field.value.trim()));
    };
    slider.addEventListener('input', () => {
      field.value = scale.text(Number(slider.value));
      slider.setAttribute('aria-valuetext', field.value);
      clearTimeout(timer);
      // At most one change in 60 ms, so that the schedule of a drag stays short.
      timer = window.setTimeout(() => send(), Math.max(0, 60 - (performance.now() - last)));
    });
    field.addEventListener('change', () => send());
    this.rows.set(key, { slider, field });
    return row;
  }

  private field(key: string): HTMLElement {
    const id = `key-${key}`;
    const field = h('input', { type: 'text', id, 'aria-describedby': `${id}-error`, spellcheck: 'false', autocomplete: 'off' });
    const row = h('div', { class: 'row short' }, h('label', { for: id, title: this.help(key) }, NAMES[key]), field, errorLine(id));
    field.addEventListener('change', () => guarded(row, this.actions.setKey(key, field.value.trim())));
    this.rows.set(key, { field });
    return row;
  }

  private aqm(): HTMLElement {
    const field = h('select', { id: 'key-aqm', 'aria-describedby': 'key-aqm-error' }, ...AQMS.map((value) => h('option', { value }, value)));
    const row = h('div', { class: 'row short' }, h('label', { for: 'key-aqm', title: this.help('aqm') }, NAMES.aqm), field, errorLine('key-aqm'));
    field.addEventListener('change', () => guarded(row, this.actions.setKey('aqm', field.value)));
    this.rows.set('aqm', { field });
    return row;
  }
}

/** Parts of a flow's text: `CC[*N][@START][,KEY=VALUE…]`. */
function partsOf(text: string): { cc: string; place: string; options: [string, string][] } {
  const found = /^([^*@,]*)([^,]*)((?:,.*)?)$/s.exec(text)!;
  const options = found[3].split(',').slice(1).map((one): [string, string] => {
    const at = one.indexOf('=');
    return at < 0 ? [one, ''] : [one.slice(0, at), one.slice(at + 1)];
  });
  return { cc: found[1], place: found[2], options };
}

function textOf({ cc, place, options }: ReturnType<typeof partsOf>): string {
  return cc + place + options.map(([key, value]) => `,${key}=${value}`).join('');
}

/** A parameter's integer as text, as `Unit::text` of core writes it. */
function valueText({ kind }: Parameter, value: number): string {
  const decimal = (places: number, scale: number) => String(Number((value / scale).toFixed(places)));
  if (kind === 'Gain' || kind === 'Share') return decimal(4, 256);
  if (kind === 'FineGain' || kind === 'FineShare') return decimal(6, 25600);
  if (kind === 'Switch') return value ? 'on' : 'off';
  if (kind === 'Micros') return value % 1e6 === 0 ? `${value / 1e6}s` : value % 1000 === 0 ? `${value / 1000}ms` : `${value}us`;
  return String(value);
}

function valueOf({ kind, value }: Parameter, text: string): number {
  const number = Number.parseFloat(text);
  if (kind === 'Switch') return text === 'on' ? 1 : 0;
  if (!Number.isFinite(number)) return value;
  if (kind === 'Gain' || kind === 'Share') return Math.round(text.endsWith('%') ? number * 2.56 : number * 256);
  if (kind === 'FineGain' || kind === 'FineShare') return Math.round(text.endsWith('%') ? number * 256 : number * 25600);
  if (kind === 'Micros') return Math.round(parsed(text) / 1000);
  return number;
}

export class FlowControls {
  readonly root = h('div', { class: 'flow-controls' });
  private flows: string[] = [];
  private readonly opened = new Set<number>();

  constructor(private readonly tables: Tables, private readonly actions: Actions, private readonly label = 'Flow') {}

  show(flows: string[]): void {
    if (flows.join('\n') === this.flows.join('\n') && this.root.childElementCount) return;
    this.flows = [...flows];
    const within = this.root.contains(document.activeElement) ? (document.activeElement as HTMLElement).id : '';
    const add = h('button', { type: 'button', id: `${this.label}-add`, onclick: () => this.set([...this.flows, 'cubic']) }, `Add a ${this.label.toLowerCase()}`);
    put(this.root, ...flows.map((flow, index) => this.flow(flow, index)), add, errorLine(this.label));
    if (within) document.getElementById(within)?.focus();
  }

  private set(flows: string[]): void {
    guarded(this.root, this.actions.setFlows(flows));
  }

  private replace(index: number, text: string): void {
    this.set(this.flows.map((flow, place) => (place === index ? text : flow)));
  }

  private flow(text: string, index: number): HTMLElement {
    const parts = partsOf(text);
    const algorithm = this.tables.algorithms.find(({ name }) => name === parts.cc);
    const id = `${this.label}-${index}`;
    const names = this.tables.algorithms.map(({ name, summary }) => h('option', { value: name, selected: name === parts.cc, title: summary }, name));
    const unknown = !algorithm && h('option', { value: parts.cc, selected: true }, parts.cc);
    const select = h('select', { id: `${id}-cc`, 'aria-label': `Algorithm of ${this.label.toLowerCase()} ${index + 1}` }, unknown, ...names);
    select.addEventListener('change', () => {
      const kept = parts.options.filter(([key]) => this.tables.options.includes(key));
      this.replace(index, textOf({ ...parts, cc: select.value, options: kept }));
    });
    const field = h('input', { type: 'text', id: `${id}-text`, value: text, 'aria-label': `${this.label} ${index + 1} in the scenario language`, spellcheck: 'false', autocomplete: 'off' });
    field.addEventListener('change', () => this.replace(index, field.value.trim()));
    const remove = h('button', {
      type: 'button', class: 'remove', 'aria-label': `Remove ${this.label.toLowerCase()} ${index + 1}`, disabled: this.flows.length < 2,
      onclick: () => this.set(this.flows.filter((_, place) => place !== index)),
    }, '×');
    const details = algorithm && this.parameters(algorithm, parts, index);
    return h('div', { class: 'flow' }, h('div', { class: 'line' }, select, field, remove), details);
  }

  private parameters(algorithm: Algorithm, parts: ReturnType<typeof partsOf>, index: number): HTMLElement {
    const list = h('div', { class: 'parameters' });
    const details = h('details', { open: this.opened.has(index) }, h('summary', {}, `${algorithm.parameters.length} parameters of ${algorithm.name}`), list);
    const fill = () => {
      if (!list.childElementCount) list.append(...algorithm.parameters.map((one) => this.parameter(one, parts, index)));
    };
    if (details.open) fill();
    details.addEventListener('toggle', () => {
      if (details.open) { this.opened.add(index); fill(); } else this.opened.delete(index);
    });
    return details;
  }

  private parameter(spec: Parameter, parts: ReturnType<typeof partsOf>, index: number): HTMLElement {
    const id = `${this.label}-${index}-${spec.name}`;
    const given = parts.options.find(([key]) => key === spec.name)?.[1];
    const value = given === undefined ? spec.value : valueOf(spec, given);
    const [low, high] = rangeOf(spec);
    const slider = h('input', { type: 'range', id, min: 0, max: 200, value: stepOf(value, low, high), 'aria-valuetext': given ?? spec.text });
    const shown = h('output', { for: id }, given ?? spec.text);
    const isChanged = given !== undefined;
    slider.addEventListener('input', () => {
      shown.textContent = valueText(spec, valueAt(Number(slider.value), low, high));
      slider.setAttribute('aria-valuetext', shown.textContent);
    });
    slider.addEventListener('change', () => {
      const number = valueAt(Number(slider.value), low, high);
      const options = parts.options.filter(([key]) => key !== spec.name);
      if (number !== spec.value) options.push([spec.name, valueText(spec, number)]);
      this.replace(index, textOf({ ...parts, options }));
    });
    return h('div', { class: `parameter${isChanged ? ' changed' : ''}` }, h('label', { for: id }, spec.name), shown, slider,
      h('small', {}, `${spec.meaning} ${spec.unit}, ${spec.min_text} to ${spec.max_text}; default ${spec.text}. Source: ${spec.source}`));
  }
}

/** Range of a parameter's slider: a factor of 16 around its default, within what is legal. */
function rangeOf({ value, min, max, kind }: Parameter): [number, number] {
  if (kind === 'Switch' || max - min <= 200) return [min, max];
  return [Math.max(min, Math.floor(value / 16)), Math.min(max, Math.max(value * 16, min + 200))];
}

function stepOf(value: number, low: number, high: number): number {
  if (high - low <= 200) return Math.round((200 * (value - low)) / Math.max(high - low, 1));
  return Math.round((200 * Math.log((value + 1) / (low + 1))) / Math.log((high + 1) / (low + 1)));
}

function valueAt(step: number, low: number, high: number): number {
  if (high - low <= 200) return Math.round(low + (step / 200) * (high - low));
  const value = Math.exp(Math.log(low + 1) + (step / 200) * Math.log((high + 1) / (low + 1))) - 1;
  return Math.max(low, Math.min(high, Math.round(value)));
}
