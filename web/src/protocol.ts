// Messages between the page and its worker.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/** A scenario: a file's JSON, and what overrides it. */
export interface Given { json?: string; keys: [string, string][]; flows: string[] }

export interface Slot { given: Given; hand?: number; inputs?: [number, number][] }

export interface Parameter {
  name: string; unit: string; kind: string; meaning: string; source: string; value: number; min: number; max: number;
  text: string; min_text: string; max_text: string;
}
export interface Algorithm {
  name: string; summary: string; source: string; hue: string; dash: number; marker: string; parameters: Parameter[];
}
export interface Key { name: string; value: string; default: string; help: string; example: string[] }
export interface Preset { name: string; title: string; source: string; keys: [string, string][] }
export interface Tables { version: string; algorithms: Algorithm[]; keys: Key[]; options: string[]; presets: Preset[]; states: string[] }

export interface PathChange { at_ns: number; rate_bps?: number; buffer_packets?: number; rtt_ns?: number }
export interface Checked {
  scenario: Record<string, unknown>; duration_ns: number; rtt_ns: number; rate_bps: number; packets: number; buffer_packets: number;
  changes: PathChange[]; flows: { name: string; cc: string; start_ns: number; mss: number; rtt_ns: number }[];
}

export type StepTo = 'packet' | 'ack' | 'round';

export type Ask =
  | { type: 'tables' }
  | { type: 'check'; given: Given }
  | { type: 'toml'; given: Given }
  | { type: 'result'; given: Given }
  | { type: 'open'; slots: Slot[]; grid_ns: number; duration_ns: number }
  | { type: 'to'; t_ns: number }
  | { type: 'step'; slot: number; flow: number; what: StepTo }
  | { type: 'change'; slots: Given[] }
  | { type: 'hand'; slot: number; at_ns: number; rate_bps: number }
  | { type: 'memory' };

/** Frames and new samples of all runs, and the time that they have reached. */
export interface Shown { now_ns: number; over: boolean; frames: Float64Array[]; samples: Float64Array[] }
