// One panel: a uPlot chart with its y axis, and its legend with live values above it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const SVG = 'http://www.w3.org/2000/svg';
/** Up to how many values a line shows a dot at each. */
const DOTS_MAX = 60;
/** The same of a staircase, whose corners already tell where it has values. */
const STEPS_MAX = 20;
/** Markers along a longer line, and the widest name at its end. */
const MARKS = 6;
const END_NAME_MAX = 132;

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

/** Whether a marker is strokes without an inside. */
function isStroke(shape) {
  return shape === 'cross' || shape === 'plus';
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
      plus: [[-1.1, 0], [1.1, 0], null, [0, -1.1], [0, 1.1]],
      down: [[0, 1.15], [1.1, -0.8], [-1.1, -0.8]],
    }[shape];
    let pen = 'moveTo';
    for (const corner of corners) {
      if (corner) path[pen](x + corner[0] * r, y + corner[1] * r);
      pen = corner ? 'lineTo' : 'moveTo';
    }
    if (!isStroke(shape)) path.closePath();
  }
  return path;
}

/** Draws inside the plot's own area, or a little around it. */
function clipped(u, around, draw) {
  const { ctx, bbox } = u;
  const room = around * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + 2 * room);
  ctx.clip();
  ctx.setLineDash([]);
  draw(ctx, devicePixelRatio);
  ctx.restore();
}

/** The bars of the intervals: along x where y is an axis of names, else along y. */
function drawIntervals(u, s, panel) {
  const along = panel.y.names ? 'x' : 'y';
  clipped(u, 0, (ctx, ratio) => {
    const cap = 3.5 * ratio;
    const stroke = (...points) => points.forEach(([x, y], i) => (i % 2 ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
    ctx.strokeStyle = s.color();
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    for (let i = 0; i < s.xs.length; i++) {
      if (Number.isNaN(s.ys[i]) || !(s.low[i] <= s.high[i])) continue;
      const [from, to] = [s.low[i], s.high[i]].map((end) => u.valToPos(end, along, true));
      const at = along === 'x' ? u.valToPos(s.ys[i], 'y', true) : u.valToPos(s.xs[i], 'x', true);
      if (along === 'x') stroke([from, at], [to, at], [from, at - cap], [from, at + cap], [to, at - cap], [to, at + cap]);
      else stroke([at, from], [at, to], [at - cap, from], [at + cap, from], [at - cap, to], [at + cap, to]);
    }
    ctx.stroke();
  });
}

/** Open markers for a series of points, so that a line beneath stays readable; filled ones on a line. */
function drawMarkers(u, s, panel, isLog) {
  const { min, max } = u.scales.x;
  const isOpen = s.isHollow;
  const all = () => Array.from(s.xs, (x, i) => [x, s.ys[i]]).filter(([x, y]) => x >= min && x <= max && !Number.isNaN(y));
  const marks = s.style === 'points' ? all() : marksOf(s, panel, min, max, isLog);
  const strokes = isStroke(s.marker);
  clipped(u, 6, (ctx, ratio) => {
    const r = (s.style !== 'points' ? 3.4 : s.xs.length > 300 ? 2 : 4.4) * ratio;
    for (const [x, y] of marks) {
      const path = markerPath(s.marker, u.valToPos(x, 'x', true), u.valToPos(y, 'y', true), r);
      // A rim of the page's colour sets a filled marker off from dense lines.
      ctx.lineWidth = (isOpen ? 1.7 : strokes ? 4 : 2.4) * ratio;
      ctx.strokeStyle = isOpen ? s.color() : cssColor('--page');
      ctx.fillStyle = isOpen ? cssColor('--page') : s.color();
      if (isOpen && !strokes) ctx.fill(path);
      ctx.stroke(path);
      if (isOpen) continue;
      ctx.strokeStyle = s.color();
      ctx.lineWidth = 1.8 * ratio;
      if (strokes) ctx.stroke(path);
      else ctx.fill(path);
    }
  });
}

/** Named stretches of x, behind everything; their names stand in the highest panel. */
function drawRegions(u, figure, panel) {
  const isFirst = panel === figure.panels[0];
  const { min, max } = u.scales.x;
  const { top, height } = u.bbox;
  clipped(u, 0, (ctx, ratio) => figure.spec.regions.forEach(([label, from, to], nth) => {
    const [left, right] = [from, to].map((x) => u.valToPos(Math.max(min, Math.min(max, x)), 'x', true));
    if (nth % 2 === 0) {
      ctx.fillStyle = cssColor('--region');
      ctx.fillRect(left, top, right - left, height);
    }
    if (isFirst && right > left) drawRegionName(ctx, label, left, right, top, height, ratio);
  }));
}

/** A region's name: whole, or up to its colon, or on its side, whichever fits. */
function drawRegionName(ctx, label, left, right, top, height, ratio) {
  ctx.font = `600 ${(narrow() ? 10.5 : 11.5) * ratio}px ${cssColor('--text')}`;
  ctx.fillStyle = cssColor('--soft');
  const [short] = label.split(':');
  const text = [label, short].find((text) => ctx.measureText(text).width <= right - left - 8 * ratio);
  ctx.save();
  ctx.translate((left + right) / 2, top + (text ? 4 : 5) * ratio);
  ctx.textAlign = text ? 'center' : 'left';
  ctx.textBaseline = text ? 'top' : 'middle';
  if (!text) ctx.rotate(Math.PI / 2);
  ctx.fillText(text || fitted(ctx, short, height - 8 * ratio), 0, 0);
  ctx.restore();
}

/** A text on a ground of the page's colour, around the height `y`: it often lies on a line. */
function drawOnGround(ctx, text, x, y, ratio, ink) {
  const width = ctx.measureText(text).width;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  ctx.globalAlpha = 0.85;
  ctx.fillStyle = cssColor('--page');
  ctx.fillRect(x - 3 * ratio, y - 6.5 * ratio, width + 6 * ratio, 13 * ratio);
  ctx.globalAlpha = 1;
  ctx.fillStyle = ink;
  ctx.fillText(text, x, y);
}

/** The names of the reference lines, on their lines, over all else. */
function drawReferenceNames(u, figure, panel) {
  const { ctx, bbox, scales } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px ${cssColor('--text')}`;
  const place = { x: (x) => u.valToPos(x, 'x', true), y: (y) => u.valToPos(y, 'y', true) };
  // Names of regions keep the top of the first panel.
  const taken = panel === figure.panels[0] && figure.spec.regions.length ? 18 * ratio : 0;
  const box = { left: bbox.left, right: bbox.left + bbox.width, top: bbox.top + taken, bottom: bbox.top + bbox.height };
  for (const { name, x, y } of referenceNames(panel, scales.x, scales.y, place, box, ctx, ratio)) {
    drawOnGround(ctx, name, x, y, ratio, cssColor('--soft'));
  }
  ctx.restore();
}

/** The names of rows above them, where the figure is too narrow for a margin of names. */
function drawRowNames(u, panel) {
  const { names } = panel.y;
  if (!names || !narrow()) return;
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11.5 * ratio}px ${cssColor('--text')}`;
  names.forEach((name, i) => {
    const y = u.valToPos(names.length - 1 - i, 'y', true) - 21 * ratio;
    drawOnGround(ctx, fitted(ctx, name, bbox.width - 8 * ratio), bbox.left + 3 * ratio, y, ratio, cssColor('--ink'));
  });
  ctx.restore();
}

/** Each line's name at its end, in its colour. */
function drawEndNames(u, figure, panel) {
  if (!figure.endRoom) return;
  const { min, max } = u.scales.x;
  const ratio = devicePixelRatio;
  const { left, top, width, height } = u.bbox;
  const { ctx } = u;
  ctx.save();
  ctx.font = `600 ${11 * ratio}px ${cssColor('--text')}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const ends = namedAtEnd(panel).map((s) => ({ s, y: u.valToPos(lastValue(s, min, max), 'y', true) }));
  const labels = ends.filter(({ y }) => y >= top && y <= top + height);
  for (const { s, y } of spreadLabels(labels, top + 5 * ratio, top + height - 5 * ratio, 13 * ratio)) {
    ctx.fillStyle = s.color();
    ctx.fillText(fitted(ctx, s.name, (figure.endRoom - 8) * ratio), left + width + 6 * ratio, y);
  }
  ctx.restore();
}

/** What stands above the range, at the place where it leaves it. */
function drawCut(u, figure, panel) {
  if (!panel.cut) return;
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  const text = cutText(panel, figure.spec.x.unit);
  ctx.save();
  ctx.font = `600 ${11 * ratio}px ${cssColor('--text')}`;
  const most = bbox.left + bbox.width - ctx.measureText(text).width - 4 * ratio;
  const x = Math.max(bbox.left + 2 * ratio, Math.min(most, u.valToPos(panel.cut.x, 'x', true) - 4 * ratio));
  drawOnGround(ctx, text, x, bbox.top + 8 * ratio, ratio, cssColor('--ink'));
  ctx.restore();
}

function seriesOptions(s) {
  const line = { label: s.name, stroke: () => s.color(), width: 1.7, dash: s.dash, points: { show: false } };
  if (s.style === 'points') return { ...line, paths: () => null };
  if (s.style === 'reference') return { ...line, width: 1.3 };
  if (s.style === 'area') return { ...line, width: 1, fill: () => s.color(), paths: uPlot.paths.stepped({ align: 1 }) };
  if (s.style === 'step') return { ...line, paths: uPlot.paths.stepped({ align: 1 }) };
  return line;
}

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
  const yAxis = { ...common, ...(y.log ? LOG_AXIS : {}), scale: 'y', size: figure.gutter, space: y.log ? 18 : 30 };
  if (!y.names) return [x, yAxis];
  const name = (i) => (narrow() ? '' : fitted(measuring(), y.names[y.names.length - 1 - i] ?? '', figure.gutter - 12));
  return [x, { ...yAxis, splits: () => y.names.map((_, i) => i), gap: 8, values: (u, ticks) => ticks.map(name) }];
}

const PEN = document.createElement('canvas').getContext('2d');

/** The pen that measures texts, set to the axes' font; whoever needs another font sets it. */
function measuring() {
  PEN.font = axisFont();
  return PEN;
}

/** What all charts of a figure have in common: one x scale, one cursor, zoom by drag. */
function chartOptions(figure, panel, withX, height) {
  const { y } = panel;
  const range = (u) => {
    const { min, max } = u.scales.x;
    const found = panelRange(panel, min ?? figure.full[0], max ?? figure.full[1], figure.isWhole);
    panel.cut = found.cut;
    return [found.min, found.max];
  };
  const scale = (axis) => (axis.log ? { distr: 3, log: 10 } : { distr: 1 });
  return {
    width: figure.width(), height: height + (withX ? 46 : 8), padding: [6, figure.endRoom || (y.names ? 18 : 10), 0, 0],
    legend: { show: false }, focus: { alpha: 1 },
    scales: {
      x: { time: false, ...scale(figure.spec.x), range: (u, min, max) => (min === null ? [...figure.full] : [min, max]) },
      y: { ...scale(y), range },
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
  const options = chartOptions(figure, panel, withX, height);
  options.series = [{}, ...panel.series.map(seriesOptions)];
  // Points have values where they stand and nowhere between.
  options.cursor.dataIdx = (u, i, index) => (panel.series[i - 1]?.style === 'points' ? index : nearestIndex(u, i, index));
  options.cursor.points = { size: 7, width: 0, fill: (u, i) => panel.series[i - 1].color() };
  options.hooks.drawClear = [(u) => drawRegions(u, figure, panel)];
  options.hooks.drawSeries = [(u, i) => {
    const s = panel.series[i - 1];
    if (s.hidden || !isData(s)) return;
    if (s.low) drawIntervals(u, s, panel);
    drawMarkers(u, s, panel, figure.spec.x.log);
  }];
  options.hooks.draw = [(u) => { drawRowNames(u, panel); drawReferenceNames(u, figure, panel); drawEndNames(u, figure, panel); drawCut(u, figure, panel); }];
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
  const shapes = {
    circle: ['circle', { cx: 12, cy: 6, r: 4.2 }], square: ['rect', { x: 8.2, y: 2.2, width: 7.6, height: 7.6 }],
    triangle: ['path', { d: 'M12 1.2l4.6 8.6H7.4z' }], diamond: ['path', { d: 'M12 .8L17 6l-5 5.2L7 6z' }],
    cross: ['path', { d: 'M8 2l8 8M16 2l-8 8' }], down: ['path', { d: 'M12 10.8l4.6-8.6H7.4z' }], plus: ['path', { d: 'M12 1v10M7 6h10' }],
  };
  const dash = s.dash.join(' ');
  if (s.style === 'area') part('rect', { x: 1, y: 2, width: 22, height: 9, fill: 'currentColor', stroke: 'none' });
  else if (s.style === 'step') part('path', { d: 'M1 9.5H9V3H17V7.5H23', 'stroke-dasharray': dash });
  else if (s.style !== 'points') part('path', { d: 'M1 6H23', 'stroke-dasharray': dash });
  if (s.style === 'points') part(...shapes[s.marker]);
  else if (s.isMarked) {
    const [name, attributes] = shapes[s.marker];
    part(name, { ...attributes, transform: 'translate(4.2 2.1) scale(.65)', fill: isStroke(s.marker) ? 'none' : s.isHollow ? 'var(--page)' : 'currentColor' });
  }
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
      s.hidden = !show;
      panel.chart.setSeries(i + 1, { show });
    });
    legend.append(element('li', {}, button));
  });
  return element('div', { class: 'panel-head' }, name, legend);
}

