// One panel: a uPlot chart with its y axis, and its legend with live values above it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const SVG = 'http://www.w3.org/2000/svg';
const MARKERS = ['circle', 'square', 'triangle', 'diamond', 'cross'];
/** Up to how many values a line shows a dot at each. */
const DOTS_MAX = 60;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function narrow() {
  return matchMedia('(max-width: 640px)').matches;
}

function axisFont() {
  return '12px system-ui, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
}

/** The marker's outline around (x, y), as a path. */
function markerPath(shape, x, y, r) {
  const path = new Path2D();
  if (shape === 'circle') path.arc(x, y, r, 0, 2 * Math.PI);
  else if (shape === 'square') path.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
  else {
    const corners = {
      triangle: [[0, -1.15], [1.1, 0.8], [-1.1, 0.8]],
      diamond: [[0, -1.25], [1.15, 0], [0, 1.25], [-1.15, 0]],
      cross: [[-0.9, -0.9], [0.9, 0.9], null, [0.9, -0.9], [-0.9, 0.9]],
    }[shape];
    let pen = 'moveTo';
    for (const corner of corners) {
      if (corner) path[pen](x + corner[0] * r, y + corner[1] * r);
      pen = corner ? 'lineTo' : 'moveTo';
    }
    if (shape !== 'cross') path.closePath();
  }
  return path;
}

/** Open markers for a series of points; the page shows through them, so that a line beneath stays readable. */
function drawMarkers(u, s) {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(u.bbox.left - 6 * ratio, u.bbox.top - 6 * ratio, u.bbox.width + 12 * ratio, u.bbox.height + 12 * ratio);
  ctx.clip();
  ctx.strokeStyle = s.color();
  ctx.fillStyle = cssColor('--page');
  ctx.lineWidth = 1.7 * ratio;
  const r = (s.xs.length > 300 ? 2 : 4.4) * ratio;
  for (let i = 0; i < s.xs.length; i++) {
    if (s.xs[i] < u.scales.x.min || s.xs[i] > u.scales.x.max || Number.isNaN(s.ys[i])) continue;
    const path = markerPath(s.marker, u.valToPos(s.xs[i], 'x', true), u.valToPos(s.ys[i], 'y', true), r);
    if (s.marker !== 'cross') ctx.fill(path);
    ctx.stroke(path);
  }
  ctx.restore();
}

/** The name of a reference line, on the line. */
function drawReferenceName(u, s) {
  const last = s.ys.length - 1;
  const y = u.valToPos(s.ys[last], 'y', true);
  const { left, top, width, height } = u.bbox;
  if (!(y > top - 1 && y < top + height + 1) || !s.flat) return;
  const ratio = devicePixelRatio;
  const { ctx } = u;
  ctx.save();
  ctx.font = `${11 * ratio}px ${cssColor('--text')}`;
  ctx.textAlign = 'right';
  const above = y - top > 16 * ratio;
  ctx.textBaseline = above ? 'bottom' : 'top';
  const at = [s.name, left + width - 4 * ratio, y + (above ? -2 : 3) * ratio];
  // A ground of the page's colour: the name often lies on a line.
  const size = ctx.measureText(s.name).width;
  ctx.globalAlpha = 0.8;
  ctx.fillStyle = cssColor('--page');
  ctx.fillRect(at[1] - size - 3 * ratio, above ? at[2] - 12 * ratio : at[2] - ratio, size + 6 * ratio, 13 * ratio);
  ctx.globalAlpha = 1;
  ctx.fillStyle = cssColor('--soft');
  ctx.fillText(...at);
  ctx.restore();
}

/** The y range: as the figure fixes it, otherwise around the data, from zero if they come near it. */
function yRange(axis, low, high) {
  if (!(low <= high)) [low, high] = axis.log ? [1, 10] : [0, 1];
  if (axis.log) return [axis.min ?? low / 1.25, axis.max ?? high * 1.25];
  const room = high - low || Math.abs(high) * 0.1 || 1;
  const fromZero = low >= 0 && low < 0.45 * high;
  const min = axis.min ?? (fromZero || (low === 0 && high === 0) ? 0 : low - 0.08 * room);
  const max = axis.max ?? high + 0.08 * Math.max(room, high - min);
  return max > min ? [min, max] : [min, min + 1];
}

function seriesOptions(s) {
  const line = { label: s.name, stroke: () => s.color(), width: 1.7, dash: s.dash, points: { show: false } };
  if (s.style === 'points') return { ...line, paths: () => null, stroke: () => s.color() };
  if (s.style === 'reference') return { ...line, width: 1.2 };
  if (s.style === 'step') return { ...line, paths: uPlot.paths.stepped({ align: 1 }) };
  const dots = s.style === 'line' && s.xs.length <= DOTS_MAX;
  return { ...line, points: { show: dots, size: 6, width: 0, fill: () => s.color() } };
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
  if (ticks.length >= 3) return ticks;
  const step = 10 ** Math.floor(Math.log10((max - min) / 2));
  const first = Math.ceil(min / step);
  const count = Math.floor(max / step) - first + 1;
  return Array.from({ length: count }, (_, nth) => Number(((first + nth) * step).toPrecision(12)));
}

/** Which of them bear a label: powers of ten where there are two or more, else 1, 2 and 5, else all. */
function logLabels(u, ticks) {
  const digits = ticks.map((at) => Number(at.toExponential(6).split('e')[0]));
  const shown = digits.filter((digit) => digit === 1).length >= 2 ? [1] : [1, 2, 5];
  return ticks.map((at, nth) => (ticks.length <= 4 || shown.includes(digits[nth]) ? at : null));
}

const LOG_AXIS = { splits: logTicks, filter: logLabels };

/** The axes: short tick labels, a grid that stays behind the data. The lowest chart alone names x. */
function axes(figure, y, withX) {
  const common = {
    stroke: () => cssColor('--soft'), font: axisFont(), gap: 5,
    grid: { stroke: () => cssColor('--grid'), width: 1 },
    ticks: { show: false },
    values: (u, ticks) => ticks.map(tick),
  };
  const x = {
    ...common, scale: 'x', size: withX ? 26 : 8, space: figure.spec.x.log ? 22 : 56,
    ...(figure.spec.x.log ? LOG_AXIS : {}),
    ...(withX
      ? { label: withUnit(figure.spec.x), labelSize: 20, labelGap: 0, labelFont: axisFont() }
      : { values: (u, ticks) => ticks.map(() => '') }),
  };
  return [x, { ...common, ...(y.log ? LOG_AXIS : {}), scale: 'y', size: figure.gutter, space: y.log ? 18 : 30 }];
}

/** What all charts of a figure have in common: one x scale, one cursor, zoom by drag. */
function chartOptions(figure, y, withX, height) {
  const scale = (axis) => (axis.log ? { distr: 3, log: 10 } : { distr: 1 });
  return {
    width: figure.width(), height: height + (withX ? 46 : 8), padding: [6, 8, 0, 0],
    legend: { show: false }, focus: { alpha: 1 },
    scales: {
      x: { time: false, ...scale(figure.spec.x), range: (u, min, max) => (min === null ? [...figure.full] : [min, max]) },
      y: { ...scale(y), range: (u, min, max) => yRange(y, min, max) },
    },
    axes: axes(figure, y, withX),
    cursor: {
      y: false, drag: { x: true, y: false, setScale: true },
      sync: { key: figure.key, scales: ['x', null] },
      bind: { dblclick: () => () => figure.reset() },
    },
    hooks: {
      setScale: [(u, key) => key === 'x' && figure.zoomed(u)],
      setCursor: [(u) => figure.cursorMoved(u)],
    },
  };
}

/** The nearest value that the series has, so that the cursor's dot sits on the line even where another series set the x. */
function nearestIndex(u, seriesIndex, index) {
  if (seriesIndex === 0) return index;
  const ys = u.data[seriesIndex];
  if (ys[index] !== undefined) return index;
  let [low, high] = [index, index];
  while (low >= 0 && ys[low] === undefined) low--;
  while (high < ys.length && ys[high] === undefined) high++;
  if (low < 0) return high < ys.length ? high : null;
  if (high >= ys.length) return low;
  const xs = u.data[0];
  return xs[index] - xs[low] <= xs[high] - xs[index] ? low : high;
}

/** Makes a panel's chart inside `host`. */
function drawPanel(figure, panel, host, withX, height) {
  const options = chartOptions(figure, panel.y, withX, height);
  options.series = [{}, ...panel.series.map(seriesOptions)];
  // Points have values where they stand and nowhere between.
  options.cursor.dataIdx = (u, i, index) => (panel.series[i - 1]?.style === 'points' ? index : nearestIndex(u, i, index));
  options.cursor.points = { size: 7, width: 0, fill: (u, i) => panel.series[i - 1].color() };
  options.hooks.drawSeries = [(u, i) => {
    const s = panel.series[i - 1];
    if (s.style === 'points') drawMarkers(u, s);
    if (s.style === 'reference') drawReferenceName(u, s);
  }];
  const tables = panel.series.map((s) => [s.xs, Array.from(s.ys, (v) => (Number.isNaN(v) ? null : v))]);
  const data = tables.length ? uPlot.join(tables) : [[...figure.full]];
  panel.chart = new uPlot(options, data, host);
  return panel.chart;
}

/** A small picture of how a series is drawn. */
function swatch(s) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 12');
  svg.setAttribute('aria-hidden', 'true');
  const part = (name, attributes) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries({ fill: 'none', stroke: 'currentColor', 'stroke-width': 1.8, ...attributes })) made.setAttribute(key, value);
    svg.append(made);
  };
  if (s.style === 'points') {
    const shapes = {
      circle: ['circle', { cx: 12, cy: 6, r: 4.2 }], square: ['rect', { x: 8.2, y: 2.2, width: 7.6, height: 7.6 }],
      triangle: ['path', { d: 'M12 1.2l4.6 8.6H7.4z' }], diamond: ['path', { d: 'M12 .8L17 6l-5 5.2L7 6z' }],
      cross: ['path', { d: 'M8 2l8 8M16 2l-8 8' }],
    };
    part(...shapes[s.marker]);
  } else if (s.style === 'step') part('path', { d: 'M1 9.5H9V3H17V7.5H23', 'stroke-dasharray': s.dash.join(' ') });
  else part('path', { d: 'M1 6H23', 'stroke-dasharray': s.dash.join(' ') });
  if (s.style === 'line' && s.xs.length <= DOTS_MAX && !s.dash.length) part('circle', { cx: 12, cy: 6, r: 3, fill: 'currentColor', stroke: 'none' });
  return svg;
}

/** A panel's heading: what y shows, and each series with its value under the cursor; a click hides it. */
function panelHead(panel) {
  const name = element('span', { class: 'y' }, panel.y.label, ' ');
  const details = [panel.y.unit, panel.y.log ? 'log scale' : ''].filter(Boolean).join(', ');
  if (details) name.append(element('small', {}, details));
  const legend = element('ul', { class: 'legend' });
  panel.series.forEach((s, i) => {
    s.value = element('span', { class: 'value' });
    s.picture = swatch(s);
    const button = element('button', { type: 'button', 'aria-pressed': 'true', title: 'Show or hide' }, s.picture,
      element('span', { class: 'name' }, s.name), s.value);
    button.addEventListener('click', () => {
      const show = button.getAttribute('aria-pressed') !== 'true';
      button.setAttribute('aria-pressed', String(show));
      panel.chart.setSeries(i + 1, { show });
    });
    legend.append(element('li', {}, button));
  });
  return element('div', { class: 'panel-head' }, name, legend);
}

