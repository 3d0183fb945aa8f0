// The worker: it owns the WebAssembly module, keeps the runs at one time, and repeats one from its start for a time in its past.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import type { Ask, Checked, Given, Shown, Slot, StepTo } from './protocol';

interface Exports {
  memory: WebAssembly.Memory;
  web_reserve(bytes: number): number;
  web_call(): number;
  web_reply(): number;
  web_frame(): number;
  web_frame_len(): number;
}

/** Longest time for one answer, so that a change does not wait for a seek. Ours: half of the 100 ms that a control may take. */
const SLICE_MS = 40;
/** Number of the run whose result is written to a file. */
const RESULT_RUN = 2;

let wasm: Exports;
let slots: Slot[] = [];
let now: number[] = [];
let sampled: number[] = [];
let over: boolean[] = [];
let grid = 1e7;
let duration = 0;

function call(request: unknown): string {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const at = wasm.web_reserve(bytes.length);
  new Uint8Array(wasm.memory.buffer, at, bytes.length).set(bytes);
  const length = wasm.web_call();
  return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.web_reply(), length));
}

function asked<T>(request: unknown): T {
  const reply = JSON.parse(call(request));
  if (reply.error !== undefined) throw new Error(reply.error);
  return reply as T;
}

function frame(): Float64Array {
  return new Float64Array(wasm.memory.buffer, wasm.web_frame(), wasm.web_frame_len()).slice();
}

function create(run: number): void {
  const { given, hand, inputs } = slots[run];
  asked({ op: 'create', run, given, hand: hand ?? null, inputs: inputs ?? [] });
  now[run] = 0;
  over[run] = false;
}

function open(ask: Extract<Ask, { type: 'open' }>): void {
  slots.forEach((_, run) => asked({ op: 'drop', run }));
  slots = ask.slots;
  grid = Math.max(ask.grid_ns, 1000);
  duration = ask.duration_ns;
  sampled = slots.map(() => -1);
  now = slots.map(() => 0);
  over = slots.map(() => false);
  slots.forEach((_, run) => create(run));
}

/** Advances all runs to a time, as far as it takes no longer than a slice. */
function to(target: number): Shown {
  const end = performance.now() + SLICE_MS;
  const rows: number[][] = slots.map(() => []);
  slots.forEach((_, run) => { if (target < now[run]) create(run); });
  let at = Math.min(...now);
  while (at < target && performance.now() < end) {
    at = Math.min(target, (Math.floor(at / grid + 1e-9) + 1) * grid);
    slots.forEach((_, run) => sample(run, at, rows[run]));
  }
  return shown(rows);
}

function sample(run: number, at: number, rows: number[]): void {
  if (over[run] || at <= now[run]) return;
  const reply = asked<{ over: boolean; now_ns: number }>({ op: 'advance', run, until_ns: at, packets: false });
  now[run] = reply.over ? Math.max(at, reply.now_ns) : reply.now_ns;
  over[run] = reply.over;
  if (now[run] > sampled[run]) {
    sampled[run] = now[run];
    for (const value of frame()) rows.push(value);
  }
}

function shown(rows: number[][]): Shown {
  const frames = slots.map((_, run) => {
    asked({ op: 'advance', run, until_ns: now[run], packets: true });
    return frame();
  });
  const at = Math.min(...now);
  return { now_ns: at, over: over.every(Boolean) || at >= duration, frames, samples: rows.map((row) => Float64Array.from(row)) };
}

/** Steps one run to its next event, and the others to the same time. */
function step(slot: number, flow: number, what: StepTo): Shown {
  const reply = asked<{ over: boolean; now_ns: number }>({ op: 'step', run: slot, flow, what });
  const stepped = frame();
  now[slot] = reply.now_ns;
  over[slot] = reply.over;
  const rows: number[][] = slots.map(() => []);
  slots.forEach((_, run) => { if (run !== slot) sample(run, reply.now_ns, rows[run]); });
  const all = shown(rows);
  all.frames[slot] = stepped;
  return all;
}

function change(given: Given[]): Shown {
  given.forEach((one, run) => {
    asked({ op: 'change', run, given: one });
    slots[run].given = one;
    sampled[run] = Math.min(sampled[run], now[run]);
  });
  return shown(slots.map(() => []));
}

function hand(ask: Extract<Ask, { type: 'hand' }>): void {
  const inputs = (slots[ask.slot].inputs ??= []);
  while (inputs.length && inputs[inputs.length - 1][0] >= ask.at_ns) inputs.pop();
  inputs.push([ask.at_ns, ask.rate_bps]);
  asked({ op: 'hand', run: ask.slot, at_ns: ask.at_ns, rate_bps: ask.rate_bps });
}

function result(given: Given): string {
  asked({ op: 'create', run: RESULT_RUN, given, ahead: true, hand: null });
  const text = call({ op: 'finish', run: RESULT_RUN });
  if (text.startsWith('{"error"')) throw new Error(JSON.parse(text).error);
  return text;
}

/** Bytes of the module, and of this worker's heap where the browser reports it. */
function memory(): number {
  const heap = (performance as { memory?: { usedJSHeapSize: number } }).memory?.usedJSHeapSize ?? 0;
  return wasm.memory.buffer.byteLength + heap;
}

function answer(ask: Ask): unknown {
  switch (ask.type) {
    case 'tables': return asked({ op: 'tables' });
    case 'check': return asked<Checked>({ op: 'check', given: ask.given });
    case 'toml': return text({ op: 'toml', given: ask.given });
    case 'result': return result(ask.given);
    case 'open': open(ask); return shown(slots.map(() => []));
    case 'to': return to(ask.t_ns);
    case 'step': return step(ask.slot, ask.flow, ask.what);
    case 'change': return change(ask.slots);
    case 'hand': hand(ask); return null;
    case 'memory': return memory();
  }
}

function text(request: unknown): string {
  const reply = call(request);
  if (reply.startsWith('{"error"')) throw new Error(JSON.parse(reply).error);
  return reply;
}

const ready = (async () => {
  const reply = fetch('bbrlab.wasm');
  const module = await WebAssembly.instantiateStreaming(reply, {}).catch(async () =>
    WebAssembly.instantiate(await (await fetch('bbrlab.wasm')).arrayBuffer(), {}));
  wasm = module.instance.exports as unknown as Exports;
})();

onmessage = async (event: MessageEvent<{ id: number; ask: Ask }>) => {
  const { id, ask } = event.data;
  try {
    await ready;
    const value = answer(ask);
    const all = value as Shown | null;
    const moved = all && all.frames ? [...all.frames, ...all.samples].map((one) => one.buffer) : [];
    postMessage({ id, value }, { transfer: moved as ArrayBuffer[] });
  } catch (error) {
    postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
};
