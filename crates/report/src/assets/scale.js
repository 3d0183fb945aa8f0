// Ranges, ticks and places of labels: one set of rules for the charts on the screen and for the pictures made of them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/** From how many values on a spike may be cut off: fewer are each worth seeing. */
const SPIKE_FROM = 60;
/** A spike is what stands so many times above all but the highest fiftieth of the values. */
const SPIKE_RATIO = 2.2;
const SPIKE_SHARE = 0.98;

/** Round numbers from `min` to `max`, about `count` of them. */
function linearTicks(min, max, count) {
  const raw = (max - min) / Math.max(1, count);
  if (!(raw > 0)) return [min];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((digit) => digit * power >= raw * (1 - 1e-9)) * power;
  const ticks = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

/**
 * Ticks of a log axis: 1, 2 … 9 times each power of ten within the range, or finer ones where those are few. The library's own
 * count on a range that begins at such a number, and never end where it does not.
 */
function logTicks(u, axis, min, max) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(min)); 10 ** power <= max; power += 1) {
    for (let digit = 1; digit < 10; digit += 1) {
      const at = Number(`${digit}e${power}`);
      if (at >= min && at <= max) ticks.push(at);
    }
  }
  return ticks.length >= 3 ? ticks : linearTicks(min, max, 5);
}

/** Which of them bear a label: of powers of ten, 1, 2 and 5 times them, and 3 and 7 times too, the first that are three or more; of few or finer ticks all. */
function logLabels(u, ticks) {
  const digits = ticks.map((at) => Number(at.toExponential(6).split('e')[0]));
  const count = (some) => digits.filter((digit) => some.includes(digit)).length;
  const shown = [[1], [1, 2, 5]].find((some) => count(some) >= 3) ?? [1, 2, 3, 5, 7];
  const isAll = ticks.length <= 4 || !digits.every(Number.isInteger);
  return ticks.map((at, nth) => (isAll || shown.includes(digits[nth]) ? at : null));
}

const LOG_AXIS = { splits: logTicks, filter: logLabels };

/** Whether a series is data rather than something to hold data against. */
function isData(s) {
  return s.style !== 'reference' && s.style !== 'area';
}

/** Calls `visit(x, y, i)` for each value of a series between `from` and `to`, and for the neighbours on both sides. */
function eachWithin(s, from, to, visit) {
  const first = Math.max(0, indexBefore(s.xs, from));
  for (let i = first; i < s.xs.length; i++) {
    visit(s.xs[i], s.ys[i], i);
    if (s.xs[i] > to) break;
  }
}

/**
 * The y range of a panel where x runs from `from` to `to`: as the figure fixes it, otherwise around the data, from zero if
 * they come near it. References widen it only where they are near. A spike is cut off unless `whole`; `cut` tells of it.
 */
function panelRange(panel, from, to, whole) {
  const axis = panel.y;
  if (axis.names) return { min: -0.6, max: axis.names.length - 0.4, cut: null };
  const values = [];
  let [low, high, top] = [Infinity, -Infinity, null];
  const take = (v, x, s) => {
    if (Number.isNaN(v)) return;
    values.push(v);
    if (v < low) low = v;
    if (v > high) [high, top] = [v, { value: v, x, name: s.name }];
  };
  for (const s of panel.series.filter((s) => s.style !== 'reference' && !s.hidden)) {
    eachWithin(s, from, to, (x, y, i) => {
      take(y, x, s);
      if (s.low) [s.low[i], s.high[i]].forEach((end) => take(end, x, s));
    });
  }
  let cut = null;
  if (!whole && !axis.log && axis.max === null && values.length >= SPIKE_FROM) {
    const usual = Float64Array.from(values).sort()[Math.floor(SPIKE_SHARE * (values.length - 1))];
    if (usual > 0 && high > SPIKE_RATIO * usual) [high, cut] = [1.3 * usual, top];
  }
  if (!(low <= high)) [low, high] = axis.log ? [1, 10] : [0, 1];
  for (const s of panel.series.filter((s) => s.style === 'reference' && !s.hidden)) {
    const ys = Array.from(s.ys).filter((y) => !Number.isNaN(y));
    const [least, most] = [Math.min(...ys), Math.max(...ys)];
    const reach = axis.log ? 4 : 1.7;
    if (most > high && (most <= reach * high || !values.length)) high = most;
    if (least < low && (least >= low / reach || !values.length)) low = least;
  }
  if (axis.log) return { min: axis.min ?? low / 1.25, max: axis.max ?? high * 1.25, cut };
  const room = high - low || Math.abs(high) * 0.1 || 1;
  const fromZero = low >= 0 && low < 0.45 * high;
  const min = axis.min ?? (fromZero || (low === 0 && high === 0) ? 0 : low - 0.08 * room);
  const max = axis.max ?? high + 0.08 * Math.max(room, high - min);
  return { min, max: max > min ? max : min + 1, cut };
}

/** What a cut-off spike says. */
function cutText(panel, unit) {
  const { value, x } = panel.cut;
  return `▲ up to ${shown(value)}${panel.y.unit ? ` ${panel.y.unit}` : ''} at ${shown(x)}${unit ? ` ${unit}` : ''}`;
}

/** The places of a line's markers: each value of a short one, else a few, apart from those of its neighbours. */
function marksOf(s, panel, from, to, isLog) {
  const marks = [];
  if (s.xs.length <= (s.style === 'step' ? STEPS_MAX : DOTS_MAX)) {
    eachWithin(s, from, to, (x, y) => !Number.isNaN(y) && x >= from && x <= to && marks.push([x, y]));
    return marks;
  }
  const data = panel.series.filter(isData);
  if (data.length < 2) return marks;
  const share = (data.indexOf(s) + 0.5) / data.length;
  for (let nth = 0; nth < MARKS; nth++) {
    const part = (nth + share) / MARKS;
    const x = isLog ? from * (to / from) ** part : from + (to - from) * part;
    const i = indexBefore(s.xs, x);
    if (i >= 0 && i < s.xs.length - 1 && !Number.isNaN(s.ys[i]) && s.xs[i] >= from) marks.push([s.xs[i], s.ys[i]]);
  }
  return marks;
}

/** The last value of a series up to `to`, or NaN. */
function lastValue(s, from, to) {
  for (let i = Math.min(indexBefore(s.xs, to), s.xs.length - 1); i >= 0 && s.xs[i] >= from; i--) {
    if (!Number.isNaN(s.ys[i])) return s.ys[i];
  }
  return NaN;
}

/** The series that bear their name at the line's end: where there are several, and not too many. */
function namedAtEnd(panel) {
  const lines = panel.series.filter((s) => isData(s) && s.style !== 'points');
  return lines.length >= 2 && lines.length <= 8 ? lines.filter((s) => !s.hidden) : [];
}

/** Moves labels, each `{ y }`, apart to at least `gap`, within `top` and `bottom`. */
function spreadLabels(labels, top, bottom, gap) {
  labels.sort((a, b) => a.y - b.y);
  let floor = top;
  for (const label of labels) {
    label.y = Math.max(label.y, floor);
    floor = label.y + gap;
  }
  let ceiling = bottom;
  for (const label of [...labels].reverse()) {
    label.y = Math.min(label.y, ceiling);
    ceiling = label.y - gap;
  }
  return labels;
}

/** Where a reference bears its name: the last of its points that is in sight, as [x, y]. */
function referenceEnd(s, from, to, min, max) {
  let place = null;
  eachWithin(s, from, to, (x, y) => {
    if (x >= from && x <= to && y >= min && y <= max) place = [x, y];
  });
  if (s.flat && s.ys[0] >= min && s.ys[0] <= max) place = [to, s.ys[0]];
  return place;
}

/** The names of a panel's references with their places: left end and middle height, above their lines and apart. */
function referenceNames(panel, x, y, place, box, pen, ratio) {
  const names = [];
  if (panel.y.names) return names; // an upright line, named in the legend
  for (const s of panel.series.filter((s) => s.style === 'reference' && !s.hidden)) {
    const end = referenceEnd(s, x.min, x.max, y.min, y.max);
    if (!end) continue;
    const right = Math.min(place.x(end[0]), box.right) - 5 * ratio;
    const left = Math.max(box.left + 5 * ratio, right - pen.measureText(s.name).width);
    const line = place.y(end[1]);
    names.push({ name: s.name, x: left, y: line + (line - box.top > 16 * ratio ? -8 : 9) * ratio });
  }
  return spreadLabels(names, box.top + 7 * ratio, box.bottom - 7 * ratio, 13 * ratio);
}

/** `text` cut to `width` as the pen measures it. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && pen.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}
