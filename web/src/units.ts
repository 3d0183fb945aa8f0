// Numbers with their units, as the scenario language writes and reads them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

function digits(value: number): string {
  const places = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(places)));
}

const RATES: [number, string, string][] = [[1e9, 'gbit', 'Gbit/s'], [1e6, 'mbit', 'Mbit/s'], [1e3, 'kbit', 'kbit/s'], [1, 'bit', 'bit/s']];
const TIMES: [number, string, string][] = [[1e9, 's', 's'], [1e6, 'ms', 'ms'], [1e3, 'us', 'µs'], [1, 'ns', 'ns']];

function scaled(value: number, units: [number, string, string][], form: 1 | 2, space: string): string {
  if (!Number.isFinite(value)) return '–';
  const unit = units.find(([size]) => value >= size * 0.9995) ?? units[units.length - 1];
  return `${digits(value / unit[0])}${space}${unit[form]}`;
}

export const rateText = (bps: number) => scaled(bps, RATES, 1, '');
export const timeText = (ns: number) => scaled(ns, TIMES, 1, '');
export const rateShown = (bps: number) => scaled(bps, RATES, 2, ' ');
export const timeShown = (ns: number) => (ns === 0 ? '0 ms' : scaled(ns, TIMES, 2, ' '));
export const countShown = (value: number) => (Number.isFinite(value) ? Math.round(value).toLocaleString('en') : '–');
/** A time in seconds as the schedule has it, to the microsecond. */
export const secondsText = (ns: number) => `${(ns / 1e9).toFixed(6).replace(/0+$/, '').replace(/\.$/, '')}s`;

/** A rate or a time of the scenario language, or NaN. */
export function parsed(text: string): number {
  const found = /^\s*([\d.]+)\s*([a-zµ]+)\s*$/i.exec(text);
  if (!found) return NaN;
  const unit = [...RATES, ...TIMES, [1e12, 'tbit', ''] as [number, string, string]].find(([, name]) => name === found[2].toLowerCase());
  return unit ? Number(found[1]) * unit[0] : NaN;
}
