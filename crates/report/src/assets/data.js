// The page's data: columns decoded when they are first asked for, numbers as text.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const DATA = JSON.parse(document.getElementById('report-data').textContent);
const decoded = new Map();

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new DataView(bytes.buffer);
}

/** Values read from base64, each `size` bytes, little-endian on every machine. */
function values(base64, size, read) {
  const view = bytesOf(base64);
  return Float64Array.from({ length: view.byteLength / size }, (_, i) => read(view, i * size));
}

function decode(column) {
  if (Array.isArray(column)) return Float64Array.from(column, (v) => (v === null ? NaN : v));
  if (column.g) {
    const [first, step, n] = column.g;
    return Float64Array.from({ length: n }, (_, i) => first + i * step);
  }
  if (column.u || column.b) {
    const [first, step, ahead] = column.u || column.b;
    let index = 0;
    if (column.b) return values(ahead, 1, (view, at) => first + step * (index += view.getUint8(at)));
    return values(ahead, 2, (view, at) => first + step * (index += view.getUint16(at, true)));
  }
  if (column.q) {
    const [low, high, levels] = column.q;
    return values(levels, 2, (view, at) => {
      const level = view.getUint16(at, true);
      return level === 65535 ? NaN : low + ((high - low) * level) / 65534;
    });
  }
  if (column.d) return values(column.d, 8, (view, at) => view.getFloat64(at, true));
  return values(column.f, 4, (view, at) => view.getFloat32(at, true));
}

function columnOf(number) {
  if (!decoded.has(number)) decoded.set(number, decode(DATA.arrays[number]));
  return decoded.get(number);
}

/** `xs` with equal neighbours moved apart by less than can be seen: the chart needs each x once. */
function strictlyRising(xs) {
  const step = (xs[xs.length - 1] - xs[0] || 1) * 1e-9;
  const out = Float64Array.from(xs);
  for (let i = 1; i < out.length; i++) if (!(out[i] > out[i - 1])) out[i] = out[i - 1] + step;
  return out;
}

/** The index of the last x at or before `x`, or -1. */
function indexBefore(xs, x) {
  let low = -1;
  let high = xs.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return low;
}

/** The series' value at `x` as its line shows it, or NaN where it shows none. `near` tells whether two x are close to the eye. */
function valueAt(series, x, near) {
  const { xs, ys, style } = series;
  if (style === 'reference' && series.flat) return ys[0];
  const before = indexBefore(xs, x);
  if (style === 'step' || style === 'area') return before < 0 || (before === xs.length - 1 && !near(x, xs[before])) ? NaN : ys[before];
  let at = before;
  if (before < 0 || (before + 1 < xs.length && xs[before + 1] - x < x - xs[before])) at = before + 1;
  const onLine = style !== 'points' && before >= 0 && before < xs.length - 1;
  return onLine || near(xs[at], x) ? ys[at] : NaN;
}

/** A number as the legend shows it: four significant digits. */
function shown(v) {
  if (!Number.isFinite(v)) return '–';
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return v.toExponential(2);
  return Number(v.toPrecision(4)).toLocaleString('en-GB', { maximumFractionDigits: 8 });
}

/** A number as an axis shows it: short. */
function tick(v) {
  if (v === null || v === undefined) return '';
  const size = Math.abs(v);
  if (size >= 1e9) return `${Number((v / 1e9).toPrecision(4))}G`;
  if (size >= 1e6) return `${Number((v / 1e6).toPrecision(4))}M`;
  if (size >= 1e4) return `${Number((v / 1e3).toPrecision(4))}k`;
  if (size !== 0 && size < 1e-4) return v.toExponential(0);
  return String(Number(v.toPrecision(6)));
}

function withUnit(axis) {
  return axis.unit ? `${axis.label} (${axis.unit})` : axis.label;
}

function csvCell(value) {
  const text = typeof value === 'number' ? (Number.isFinite(value) ? String(Number(value.toPrecision(6))) : '') : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** A figure's data in the long form that every tool reads: one value a line. */
function figureCsv(figure) {
  const lines = [['panel', 'series', withUnit(figure.spec.x), 'value', 'low', 'high']];
  for (const panel of figure.panels) {
    const { names } = panel.y;
    const value = (y) => (names && !Number.isNaN(y) ? names[names.length - 1 - Math.round(y)] : y);
    for (const s of panel.series.filter((s) => !names || isData(s))) {
      s.xs.forEach((x, i) => lines.push([withUnit(panel.y), s.name, x, value(s.ys[i]), ...(s.low ? [s.low[i], s.high[i]] : ['', ''])]));
    }
  }
  for (const band of figure.ribbons) {
    band.states.forEach((state, i) => lines.push(['state', band.name, band.edges[i], state < 0 ? '' : DATA.states[state], '', '']));
  }
  return lines.map((line) => line.map(csvCell).join(',')).join('\n') + '\n';
}

