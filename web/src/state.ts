// The page's state is its address: the keys and flows of the scenario language, and what is shown.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Given } from './protocol';

export type View = 'pipe' | 'pair' | 'game' | 'learn';
export const VIEWS: View[] = ['pipe', 'pair', 'game', 'learn'];
export interface State {
  view: View;
  given: Given;
  /** Flows of the second run in "two side by side". */
  rival: string[];
  /** Simulated nanoseconds per nanosecond of the viewer. 0: chosen by the path. */
  speed: number;
  hide: boolean;
  step: number;
  t_ns: number;
}

export const DEFAULT: Given = {
  keys: [['rate', '20mbit'], ['rtt', '40ms'], ['buffer', '1bdp'], ['duration', '20s']],
  flows: ['bbr3', 'cubic@4s'],
};

/** Longest address that is read. Ours: a schedule of a thousand changes. */
const LENGTH_MAX = 60_000;

/** Reads an address. What is not understood is left out, and `notes` gets a line about it. */
export function read(hash: string, notes: string[]): State {
  const state: State = { view: 'pipe', given: structuredClone(DEFAULT), rival: [], speed: 0, hide: false, step: 0, t_ns: 0 };
  if (hash.length > LENGTH_MAX) {
    notes.push(`the address has ${hash.length} characters; at most ${LENGTH_MAX} are read`);
    return state;
  }
  const given: Given = { keys: [], flows: [] };
  let pairs: [string, string][] = [];
  try {
    pairs = [...new URLSearchParams(hash.replace(/^#/, ''))];
  } catch {
    notes.push('the address cannot be read; write key=value&…');
  }
  for (const [key, value] of pairs) {
    if (key === 'view') {
      if (VIEWS.includes(value as View)) state.view = value as View;
      else notes.push(`view: ${JSON.stringify(value.slice(0, 40))} is no view; write ${VIEWS.join(', ')}`);
    } else if (key === 'step' || key === 't' || key === 'speed') {
      const number = Number(value);
      const max = key === 'step' ? 9 : key === 't' ? 1e6 : 100;
      if (!(number >= 0 && number <= max)) notes.push(`${key}: ${JSON.stringify(value.slice(0, 40))} is not accepted; write 0 to ${max}`);
      else if (key === 'step') state.step = Math.floor(number);
      else if (key === 't') state.t_ns = number * 1e9;
      else state.speed = number;
    } else if (key === 'hide') state.hide = value === '1';
    else if (key === 'json') given.json = value;
    else if (key === 'with') state.rival.push(value);
    else if (key === 'flow') given.flows.push(value);
    else given.keys.push([key, value]);
  }
  if (given.json !== undefined || given.keys.length || given.flows.length) state.given = given;
  return state;
}

export function write(state: State): string {
  const out = new URLSearchParams();
  if (state.view !== 'pipe') out.append('view', state.view);
  if (state.view === 'learn') out.append('step', String(state.step));
  else if (state.view !== 'game') {
    if (state.given.json !== undefined) out.append('json', state.given.json);
    for (const [key, value] of state.given.keys) out.append(key, value);
    for (const flow of state.given.flows) out.append('flow', flow);
    for (const flow of state.view === 'pair' ? state.rival : []) out.append('with', flow);
  }
  const isFree = state.view === 'pipe' || state.view === 'pair';
  if (state.speed > 0 && isFree) out.append('speed', String(Number(state.speed.toPrecision(3))));
  if (state.hide && isFree) out.append('hide', '1');
  if (state.t_ns > 0 && isFree) out.append('t', String(Number((state.t_ns / 1e9).toFixed(6))));
  // A plus sign of URLSearchParams is a space, and these marks need no escape in a fragment.
  return `#${out.toString().replace(/%40/g, '@').replace(/%3A/g, ':').replace(/%2C/g, ',').replace(/%3B/g, ';')}`;
}

export function get(given: Given, key: string): string | undefined {
  return given.keys.find(([name]) => name === key)?.[1];
}

export function set(given: Given, key: string, value: string): Given {
  const keys = given.keys.filter(([name]) => name !== key);
  if (value !== '') keys.push([key, value]);
  return { ...given, keys };
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/** A line for the shell whose JSON has the same bytes. */
export function command(given: Given): string {
  const flags = [...given.keys.map(([key, value]) => `--${key.replace(/_/g, '-')} ${quoted(value)}`), ...given.flows.map((flow) => `--flow ${quoted(flow)}`)];
  const file = given.json === undefined ? '' : ' scenario.json';
  return `bbrlab run${file} ${flags.join(' ')} --json -`.replace(/ +/g, ' ');
}

export function python(given: Given): string {
  const words = given.keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  if (given.flows.length) words.push(`flows=${JSON.stringify(given.flows)}`);
  const file = given.json === undefined ? '' : `json.loads(${JSON.stringify(given.json)}), `;
  return `${file ? 'import json\n' : ''}import bbrlab\nr = bbrlab.run(${file}${words.join(', ')})\nprint(r.to_json(), end="")`;
}
