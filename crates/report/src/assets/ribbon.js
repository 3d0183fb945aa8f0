// The ribbons: one chart without lines, whose rows show states as coloured, patterned and named spans.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const BAND = 15;
const NAME_LINE = 14;

/** A fill with its pattern, in device pixels; patterns tell states apart without colour. */
function stateFill(ctx, look) {
  const { fill, pattern } = look;
  if (pattern === 'plain') return fill;
  const size = Math.round(6 * devicePixelRatio);
  const tile = element('canvas', { width: size, height: size });
  const pen = tile.getContext('2d');
  pen.fillStyle = fill;
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = 'rgba(20, 24, 31, .38)';
  pen.lineWidth = devicePixelRatio;
  pen.beginPath();
  for (const shift of [-size, 0, size]) {
    if (pattern === 'rising' || pattern === 'crossed') { pen.moveTo(shift - 1, size + 1); pen.lineTo(shift + size + 1, -1); }
    if (pattern === 'falling' || pattern === 'crossed') { pen.moveTo(shift - 1, -1); pen.lineTo(shift + size + 1, size + 1); }
    if (pattern === 'upright') { pen.moveTo(shift + size / 2, 0); pen.lineTo(shift + size / 2, size); }
  }
  pen.stroke();
  return ctx.createPattern(tile, 'repeat');
}

/** The state's name on its span, where there is room; on patterned fills the name gets a plain ground. */
function labelSpan(ctx, look, left, right, top, height, ratio) {
  const width = ctx.measureText(look.label).width;
  if (width + 8 * ratio > right - left) return;
  const middle = (left + right) / 2;
  if (look.pattern !== 'plain') {
    ctx.fillStyle = look.fill;
    ctx.fillRect(middle - width / 2 - 3 * ratio, top, width + 6 * ratio, height);
  }
  ctx.fillStyle = look.ink;
  ctx.fillText(look.label, middle, top + height / 2 + 0.5 * ratio);
}

function drawBand(u, band, top, height, ratio) {
  const { ctx, bbox, scales } = u;
  const fills = new Map();
  const first = Math.max(0, indexBefore(band.edges, scales.x.min));
  for (let i = first; i < band.states.length && band.edges[i] < scales.x.max; i++) {
    if (band.states[i] < 0) continue;
    const state = band.states[i];
    if (!fills.has(state)) {
      const look = stateLook(DATA.states[state]);
      fills.set(state, [look, stateFill(ctx, look)]);
    }
    const [look, fill] = fills.get(state);
    const left = Math.max(bbox.left, u.valToPos(Math.max(band.edges[i], scales.x.min), 'x', true));
    const right = Math.min(bbox.left + bbox.width, u.valToPos(Math.min(band.edges[i + 1], scales.x.max), 'x', true));
    ctx.fillStyle = fill;
    ctx.fillRect(left, top, Math.max(right - left, 0.5), height);
    if (right - left > 5 * ratio) {
      ctx.fillStyle = 'rgba(20, 24, 31, .28)';
      ctx.fillRect(left, top, 0.75 * ratio, height);
    }
    labelSpan(ctx, look, left, right, top, height, ratio);
  }
}

/** Draws every band; its name stands before it, or above it where it is long. */
function drawRibbons(u, figure) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.textBaseline = 'middle';
  figure.ribbons.forEach((band, row) => {
    const above = figure.namesAbove ? NAME_LINE : 0;
    const top = bbox.top + (row * (BAND + above + 4) + above) * ratio;
    ctx.font = `600 ${11.5 * ratio}px ${cssColor('--text')}`;
    ctx.fillStyle = cssColor('--ink');
    ctx.textAlign = above ? 'left' : 'right';
    const [x, y] = above ? [bbox.left, top - (NAME_LINE / 2) * ratio] : [bbox.left - 6 * ratio, top + (BAND / 2) * ratio];
    ctx.fillText(band.name, x, y, above ? bbox.width : undefined);
    ctx.font = `${11 * ratio}px ${cssColor('--text')}`;
    ctx.textAlign = 'center';
    drawBand(u, band, top, BAND * ratio, ratio);
  });
  ctx.restore();
}

/** The longest ribbon name's width. */
function longestName(ribbons) {
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = `600 11.5px ${cssColor('--text')}`;
  return Math.max(0, ...ribbons.map((band) => pen.measureText(band.name).width));
}

/** The ribbons' chart, the lowest of the figure. */
function drawRibbonChart(figure, host) {
  figure.namesAbove = longestName(figure.ribbons) > figure.gutter - 8;
  const row = BAND + 4 + (figure.namesAbove ? NAME_LINE : 0);
  const options = chartOptions(figure, { y: { log: false, min: 0, max: 1 }, series: [] }, true, figure.ribbons.length * row + 2);
  options.padding[0] = 2;
  options.axes[1] = { ...options.axes[1], grid: { show: false }, values: () => [] };
  options.series = [{}, { show: false }];
  options.hooks.draw = [(u) => drawRibbons(u, figure)];
  const chart = new uPlot(options, [[...figure.full], [null, null]], host);
  const tip = element('div', { class: 'tip', hidden: '' });
  host.append(tip);
  chart.over.addEventListener('mousemove', (event) => showTip(figure, chart, tip, event, row));
  chart.over.addEventListener('mouseleave', () => { tip.hidden = true; });
  return chart;
}

/** Names the span under the pointer, with its times. */
function showTip(figure, chart, tip, event, row) {
  const box = chart.over.getBoundingClientRect();
  const band = figure.ribbons[Math.floor((event.clientY - box.top) / row)];
  const i = band ? indexBefore(band.edges, chart.posToVal(event.clientX - box.left, 'x')) : -1;
  tip.hidden = !band || i < 0 || i >= band.states.length || band.states[i] < 0;
  if (tip.hidden) return;
  const { unit } = figure.spec.x;
  tip.textContent = `${band.name}: ${stateLook(DATA.states[band.states[i]]).label}, ${shown(band.edges[i])}–${shown(band.edges[i + 1])} ${unit}`;
  const host = tip.parentElement.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX - host.left + 12, Math.max(0, host.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${box.top - host.top + (Math.floor((event.clientY - box.top) / row)) * row - tip.offsetHeight - 4}px`;
}

/** Every ribbon's state at `x`, in words. */
function statesAt(figure, x) {
  const stateOf = (band) => band.states[indexBefore(band.edges, x)] ?? -1;
  const known = figure.ribbons.filter((band) => stateOf(band) >= 0);
  return known.map((band) => `${band.name}: ${stateLook(DATA.states[stateOf(band)]).label}`).join(' · ');
}

/** The key: every state that occurs, as it is drawn. */
function stateKey(figure) {
  const used = [...new Set(figure.ribbons.flatMap((band) => [...band.states]))].filter((state) => state >= 0);
  const list = element('ul', { class: 'states', 'aria-label': 'States' });
  for (const state of used.sort((a, b) => a - b)) {
    const picture = element('canvas', { 'aria-hidden': 'true', 'data-state': state });
    list.append(element('li', {}, picture, stateLook(DATA.states[state]).label));
  }
  return list;
}

/** Paints the key's samples in the present theme. */
function paintStateKey(list) {
  const ratio = devicePixelRatio;
  for (const picture of list.querySelectorAll('canvas')) {
    picture.width = Math.round(22 * ratio);
    picture.height = Math.round(12 * ratio);
    const pen = picture.getContext('2d');
    pen.fillStyle = stateFill(pen, stateLook(DATA.states[Number(picture.dataset.state)]));
    pen.fillRect(0, 0, picture.width, picture.height);
  }
}

