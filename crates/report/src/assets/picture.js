// Pictures made of lines: a figure as SVG, for thumbnails, for paper and to take away, and as PNG.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const PICTURE_WIDTH = 1000;
const PICTURE_FONT = 'system-ui, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
/** Most markers of a line in a thumbnail, and most lines that its key names. */
const THUMBNAIL_MARKS = 7;
const THUMBNAIL_KEYS = 4;
/** Rows of the picture's ribbons. */
const BAND_ROW = 19;

function xml(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
}

function tag(name, attributes, inside = '') {
  const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${xml(typeof value === 'number' ? Math.round(value * 10) / 10 : value)}"`);
  return `<${name}${list.join('')}>${inside}</${name}>`;
}

function textTag(x, y, text, attributes = {}) {
  return tag('text', { x, y, 'font-size': 12, fill: cssColor('--soft'), ...attributes }, xml(text));
}

/** From values to places, linear or logarithmic. */
function placing(min, max, from, to, isLog) {
  const [a, b] = isLog ? [Math.log(min), Math.log(max)] : [min, max];
  return (v) => from + (((isLog ? Math.log(Math.max(v, min * 1e-3)) : v) - a) / (b - a)) * (to - from);
}

/** A line's path, with no more than four points a column of pixels: its first, lowest, highest and last. */
function linePath(s, from, to, place, isStep) {
  const points = [];
  let column = null;
  const flush = () => {
    if (column) points.push(...[...new Set([column.first, column.low, column.high, column.last])].sort((a, b) => a[2] - b[2]));
    column = null;
  };
  eachWithin(s, from, to, (x, y, i) => {
    if (Number.isNaN(y)) {
      flush();
      points.push(null);
      return;
    }
    const point = [place.x(x), place.y(y), i];
    const pixel = Math.floor(point[0]);
    if (!column || column.pixel !== pixel) {
      flush();
      column = { pixel, first: point, low: point, high: point, last: point };
    }
    if (point[1] < column.low[1]) column.low = point;
    if (point[1] > column.high[1]) column.high = point;
    column.last = point;
  });
  flush();
  let path = '';
  let isBroken = true;
  for (const point of points) {
    if (point) {
      const [x, y] = [point[0].toFixed(1), point[1].toFixed(1)];
      path += isBroken ? `M${x} ${y}` : isStep ? `H${x}V${y}` : `L${x} ${y}`;
    }
    isBroken = !point;
  }
  return path;
}

/** A marker around (x, y) as a path. */
function markerSvg(shape, x, y, r) {
  if (shape === 'circle') return `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  const corners = {
    square: [[-0.88, -0.88], [0.88, -0.88], [0.88, 0.88], [-0.88, 0.88]], triangle: [[0, -1.15], [1.1, 0.8], [-1.1, 0.8]],
    diamond: [[0, -1.25], [1.15, 0], [0, 1.25], [-1.15, 0]], down: [[0, 1.15], [1.1, -0.8], [-1.1, -0.8]],
    cross: [[-0.9, -0.9], [0.9, 0.9], null, [0.9, -0.9], [-0.9, 0.9]], plus: [[-1.1, 0], [1.1, 0], null, [0, -1.1], [0, 1.1]],
  }[shape];
  let [path, pen] = ['', 'M'];
  for (const corner of corners) {
    if (corner) path += `${pen}${(x + corner[0] * r).toFixed(1)} ${(y + corner[1] * r).toFixed(1)}`;
    pen = corner ? 'L' : 'M';
  }
  return isStroke(shape) ? path : `${path}z`;
}

function markersSvg(s, panel, view, place, isLog, isBare) {
  const isOpen = s.isHollow;
  const all = Array.from(s.xs, (x, i) => [x, s.ys[i]]).filter(([x, y]) => x >= view[0] && x <= view[1] && !Number.isNaN(y));
  const marks = s.style === 'points' ? all : marksOf(s, panel, ...view, isLog);
  const r = (s.style !== 'points' ? 3.3 : s.xs.length > 300 ? 2 : 4.2) * (isBare ? 0.85 : 1);
  const every = isBare ? Math.ceil(marks.length / THUMBNAIL_MARKS) : 1;
  const path = marks.filter((_, i) => i % every === 0).map(([x, y]) => markerSvg(s.marker, place.x(x), place.y(y), r)).join('');
  if (!path) return '';
  const fill = isStroke(s.marker) ? 'none' : isOpen ? cssColor('--page') : s.color();
  return tag('path', { d: path, fill, stroke: isOpen || isStroke(s.marker) ? s.color() : cssColor('--page'), 'stroke-width': isOpen ? 1.6 : 1.3 });
}

function intervalsSvg(s, panel, place) {
  let path = '';
  for (let i = 0; i < s.xs.length; i++) {
    if (Number.isNaN(s.ys[i]) || !(s.low[i] <= s.high[i])) continue;
    const isAlongX = Boolean(panel.y.names);
    const [from, to] = [s.low[i], s.high[i]].map((end) => (isAlongX ? place.x(end) : place.y(end)).toFixed(1));
    const at = isAlongX ? place.y(s.ys[i]) : place.x(s.xs[i]);
    path += isAlongX ? `M${from} ${at.toFixed(1)}H${to}M${from} ${(at - 3.5).toFixed(1)}v7M${to} ${(at - 3.5).toFixed(1)}v7`
      : `M${at.toFixed(1)} ${from}V${to}M${(at - 3.5).toFixed(1)} ${from}h7M${(at - 3.5).toFixed(1)} ${to}h7`;
  }
  return tag('path', { d: path, fill: 'none', stroke: s.color(), 'stroke-width': 1.4 });
}

function seriesSvg(s, panel, view, place, isLog, isBare) {
  const common = { fill: 'none', stroke: s.color(), 'stroke-width': s.style === 'reference' ? 1.2 : 1.6, 'stroke-linejoin': 'round' };
  if (s.dash.length) common['stroke-dasharray'] = s.dash.join(' ');
  let out = '';
  if (s.style !== 'points') {
    const path = linePath(s, ...view, place, s.style === 'step' || s.style === 'area');
    if (s.style === 'area' && path) {
      const last = place.x(Math.min(view[1], s.xs[s.xs.length - 1]));
      const first = place.x(Math.max(view[0], s.xs[0]));
      out += tag('path', { d: `${path}H${last.toFixed(1)}V${place.bottom}H${first.toFixed(1)}Z`, fill: s.color(), stroke: 'none' });
    } else out += tag('path', { ...common, d: path });
  }
  if (s.low) out += intervalsSvg(s, panel, place);
  return out + (isData(s) ? markersSvg(s, panel, view, place, isLog, isBare) : '');
}

/** The names of references and of line ends, and what a cut-off spike says. */
function namesSvg(panel, view, range, place, box, endRoom, unit) {
  let out = '';
  const small = measuring();
  small.font = `11px ${PICTURE_FONT}`;
  for (const { name, x, y } of referenceNames(panel, { min: view[0], max: view[1] }, range, place, box, small, 1)) {
    const ground = { x: x - 3, y: y - 7, width: small.measureText(name).width + 6, height: 13, fill: cssColor('--page'), 'fill-opacity': '.85' };
    out += tag('rect', ground) + textTag(x, y + 4, name, { 'font-size': 11 });
  }
  if (endRoom) {
    const labels = namedAtEnd(panel).map((s) => ({ s, y: place.y(lastValue(s, ...view)) })).filter(({ y }) => y >= box.top && y <= box.bottom);
    const pen = measuring();
    for (const { s, y } of spreadLabels(labels, box.top + 5, box.bottom - 5, 13)) {
      out += textTag(box.right + 6, y + 4, fitted(pen, s.name, endRoom - 2), { fill: s.color(), 'font-weight': 600, 'font-size': 11 });
    }
  }
  if (range.cut) {
    const text = cutText({ ...panel, cut: range.cut }, unit);
    const most = box.right - measuring().measureText(text).width - 4;
    out += textTag(Math.max(box.left + 2, Math.min(most, place.x(range.cut.x) - 4)), box.top + 11, text, { fill: cssColor('--ink'), 'font-weight': 600, 'font-size': 11 });
  }
  return out;
}

function gridSvg(figure, panel, range, place, box, isLast) {
  const { x } = figure.spec;
  const { names } = panel.y;
  let out = '';
  const line = (x1, y1, x2, y2) => tag('line', { x1, y1, x2, y2, stroke: cssColor('--grid') });
  const height = box.bottom - box.top;
  const yTicks = names ? names.map((_, i) => i) : panel.y.log ? logTicks(null, 0, range.min, range.max) : linearTicks(range.min, range.max, Math.max(2, Math.round(height / 36)));
  const yLabels = panel.y.log && !names ? logLabels(null, yTicks) : yTicks;
  const pen = measuring();
  yTicks.forEach((at, i) => {
    const y = place.y(at);
    out += line(box.left, y, box.right, y);
    const label = names ? fitted(pen, names[names.length - 1 - at], box.left - 10) : tick(yLabels[i]);
    if (yLabels[i] !== null) out += textTag(box.left - 6, y + 4, label, { 'text-anchor': 'end', ...(names ? { fill: cssColor('--ink') } : {}) });
  });
  const [low, high] = figure.view;
  const xTicks = x.log ? logTicks(null, 0, low, high) : linearTicks(low, high, Math.max(3, Math.round((box.right - box.left) / 90)));
  const xLabels = x.log ? logLabels(null, xTicks) : xTicks;
  xTicks.forEach((at, i) => {
    out += line(place.x(at), box.top, place.x(at), box.bottom);
    if (isLast && xLabels[i] !== null) out += textTag(place.x(at), box.bottom + 16, tick(xLabels[i]), { 'text-anchor': 'middle' });
  });
  if (isLast) out += textTag((box.left + box.right) / 2, box.bottom + 34, withUnit(x), { 'text-anchor': 'middle' });
  return out;
}

function regionsSvg(figure, place, box, isFirst) {
  return figure.spec.regions.map(([label, from, to], nth) => {
    const [left, right] = [from, to].map((x) => Math.max(box.left, Math.min(box.right, place.x(x))));
    const ground = nth % 2 === 0 ? tag('rect', { x: left, y: box.top, width: Math.max(0, right - left), height: box.bottom - box.top, fill: cssColor('--region') }) : '';
    const pen = measuring();
    const text = [label, label.split(':')[0]].find((text) => pen.measureText(text).width <= right - left - 8);
    return ground + (isFirst && text ? textTag((left + right) / 2, box.top + 14, text, { 'text-anchor': 'middle', 'font-weight': 600, 'font-size': 11.5 }) : '');
  }).join('');
}

/** A panel's plot inside `box`. */
function panelSvg(figure, panel, box, isLast, isBare) {
  const range = panelRange(panel, ...figure.view, figure.isWhole);
  const isLog = figure.spec.x.log;
  const place = {
    x: placing(...figure.view, box.left, box.right, isLog), y: placing(range.min, range.max, box.bottom, box.top, panel.y.log && !panel.y.names),
    bottom: box.bottom,
  };
  const id = `${figure.key}-${figure.panels.indexOf(panel)}-${isBare ? 'small' : 'whole'}`;
  const clip = tag('clipPath', { id }, tag('rect', { x: box.left - 5, y: box.top - 1, width: box.right - box.left + 10, height: box.bottom - box.top + 6 }));
  const lines = panel.series.filter((s) => !s.hidden).map((s) => seriesSvg(s, panel, figure.view, place, isLog, isBare)).join('');
  const frame = gridSvg(figure, panel, range, place, box, isLast || isBare);
  const names = isBare ? '' : namesSvg(panel, figure.view, range, place, box, box.end, figure.spec.x.unit);
  return clip + regionsSvg(figure, place, box, !isBare && panel === figure.panels[0]) + frame + tag('g', { 'clip-path': `url(#${id})` }, lines) + names;
}

/** A panel's heading and legend, wrapped to the width; gives the markup and where it ends. */
function legendSvg(panel, left, right, top) {
  const pen = measuring();
  const details = [panel.y.unit, panel.y.log ? 'log scale' : ''].filter(Boolean).join(', ');
  pen.font = `600 12px ${PICTURE_FONT}`;
  let out = textTag(left, top + 12, panel.y.label, { fill: cssColor('--ink'), 'font-weight': 600 });
  let x = left + pen.measureText(panel.y.label).width + 6;
  out += textTag(x, top + 12, details);
  x += pen.measureText(details).width + 14;
  let y = top;
  for (const s of panel.series.filter((s) => !s.hidden)) {
    const width = pen.measureText(s.name).width + 44;
    if (x + width > right && x > left) [x, y] = [left, y + 17];
    const middle = y + 8;
    const dash = s.dash.length ? { 'stroke-dasharray': s.dash.join(' ') } : {};
    if (s.style === 'area') out += tag('rect', { x, y: middle - 4, width: 22, height: 9, fill: s.color() });
    else if (s.style !== 'points') out += tag('path', { d: `M${x.toFixed(1)} ${middle}h22`, stroke: s.color(), 'stroke-width': 1.7, fill: 'none', ...dash });
    if (s.style === 'points' || s.isMarked) {
      const fill = isStroke(s.marker) ? 'none' : s.isHollow ? cssColor('--page') : s.color();
      out += tag('path', { d: markerSvg(s.marker, x + 11, middle, 3.6), stroke: s.color(), 'stroke-width': 1.5, fill });
    }
    out += textTag(x + 28, y + 12, s.name, { fill: cssColor('--ink') });
    x += width;
  }
  return [out, y + 22];
}

/** The states as rows, each with its name; the key of colours stands below. */
function ribbonsSvg(figure, box, top) {
  const place = placing(...figure.view, box.left, box.right, figure.spec.x.log);
  const pen = measuring();
  let out = '';
  let y = top;
  for (const band of figure.ribbons) {
    out += textTag(box.left - 6, y + 12, fitted(pen, band.name, box.left - 8), { 'text-anchor': 'end', fill: cssColor('--ink'), 'font-weight': 600, 'font-size': 11 });
    band.states.forEach((state, i) => {
      const [from, to] = [band.edges[i], band.edges[i + 1]].map((x) => Math.max(box.left, Math.min(box.right, place(x))));
      if (state < 0 || to - from < 0.05) return;
      out += tag('rect', { x: from, y, width: Math.max(to - from, 0.5), height: 15, fill: stateLook(DATA.states[state]).fill });
    });
    y += BAND_ROW;
  }
  const used = [...new Set(figure.ribbons.flatMap((band) => [...band.states]))].filter((state) => state >= 0);
  let x = box.left;
  y += 4;
  for (const state of used) {
    const { label, fill } = stateLook(DATA.states[state]);
    const width = pen.measureText(label).width + 36;
    if (x + width > box.right) [x, y] = [box.left, y + 17];
    out += tag('rect', { x, y, width: 18, height: 10, fill }) + textTag(x + 23, y + 9, label, { 'font-size': 11 });
    x += width;
  }
  return [out, y + 18];
}

function svgOf(width, height, inside, label) {
  const ground = tag('rect', { width, height, fill: cssColor('--page') });
  const attributes = { xmlns: SVG, viewBox: `0 0 ${width} ${Math.ceil(height)}`, width, height: Math.ceil(height), 'font-family': PICTURE_FONT, role: 'img', 'aria-label': label };
  return tag('svg', attributes, ground + inside);
}

/** A figure as SVG, as it is now: its zoom, its hidden lines, its theme. `isPlain` leaves out title and command. */
function pictureSvg(figure, { width = PICTURE_WIDTH, isPlain = false } = {}) {
  figure.prepare();
  const { spec } = figure;
  const names = figure.panels.flatMap((panel) => panel.y.names || []);
  const pen = measuring();
  const left = Math.min(width * 0.36, Math.max(56, longestName(figure.ribbons) + 10, ...names.map((name) => pen.measureText(name).width + 16)));
  const end = width > 500 && figure.panels.some((panel) => namedAtEnd(panel).length) ? Math.max(figure.endRoom, 70) : 0;
  const right = width - Math.max(end, 14);
  const few = { 1: 300, 2: 200 }[figure.panels.length] || 150;
  const height = names.length ? Math.max(110, 30 * names.length + 20) : Math.round(few * Math.min(1, width / 800 + 0.15));
  let y = isPlain ? 2 : 34;
  let out = isPlain ? '' : textTag(14, 23, fitted({ measureText: (t) => ({ width: pen.measureText(t).width * 1.3 }) }, spec.title, width - 28), { 'font-size': 16, 'font-weight': 700, fill: cssColor('--ink') });
  figure.panels.forEach((panel, i) => {
    const [legend, top] = legendSvg(panel, 14, width - 8, y);
    const isLast = i === figure.panels.length - 1;
    out += legend + panelSvg(figure, panel, { left, right, top, bottom: top + height, end }, isLast, false);
    y = top + height + (isLast ? 44 : 12);
  });
  if (figure.ribbons.length) {
    const [ribbons, bottom] = ribbonsSvg(figure, { left, right }, y);
    out += ribbons;
    y = bottom;
  }
  const made = figure.frame?.querySelector('.command code')?.textContent;
  if (!isPlain && made) {
    out += textTag(14, y + 12, made, { 'font-size': 11, 'font-family': 'ui-monospace, Menlo, Consolas, "Liberation Mono", monospace' });
    y += 22;
  }
  return svgOf(width, y + 2, out, spec.title);
}

/** One panel small, with both axes: the shape of the answer. */
function thumbnailSvg(figure, nth, width, height) {
  figure.prepare();
  const panel = figure.panels[nth] || figure.panels[0];
  const pen = measuring();
  const left = panel.y.names ? Math.min(width / 3, Math.max(...panel.y.names.map((name) => pen.measureText(name).width)) + 14) : 46;
  const inside = panelSvg(figure, panel, { left, right: width - 10, top: 24, bottom: height - 40, end: 0 }, false, true);
  return svgOf(width, height, textTag(6, 15, fitted(pen, withUnit(panel.y), width - 12)) + inside, '');
}

/** What is drawn in a thumbnail: each line's name in its colour. */
function thumbnailKeys(figure, nth) {
  const panel = figure.panels[nth] || figure.panels[0];
  const lines = panel.series.filter((s) => isData(s) && s.style !== 'points');
  const keys = lines.slice(0, THUMBNAIL_KEYS).map((s) => {
    const key = element('span', {}, swatch(s), s.name);
    key.style.color = s.color();
    return key;
  });
  return lines.length > keys.length ? [...keys, '…'] : keys;
}

/** Hands a file to the reader. */
function save(figure, extension, blob) {
  const name = figure.spec.id.replace(/[^\w.-]+/g, '-') || 'figure';
  const link = element('a', { href: URL.createObjectURL(blob), download: `${name}.${extension}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function saveSvg(figure) {
  save(figure, 'svg', new Blob([pictureSvg(figure)], { type: 'image/svg+xml' }));
}

/** The same picture in pixels, two for each of its own. */
async function savePng(figure) {
  const svg = pictureSvg(figure);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = element('canvas', { width: image.width * 2, height: image.height * 2 });
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
  save(figure, 'png', blob);
}
