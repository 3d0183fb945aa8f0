// One figure: panels over one x axis with one cursor, its tools, its keys.
// SPDX-License-Identifier: Apache-2.0 OR MIT

const ZOOM_STEP = 0.5;

class FigureView {
  constructor(frame, spec, number) {
    this.frame = frame;
    this.spec = spec;
    this.key = `figure-${number}`;
    this.plots = frame.querySelector('.plots');
    this.charts = [];
    this.drawn = false;
    this.reserveHeight();
  }

  panelHeight() {
    const names = Math.max(0, ...this.spec.panels.map((panel) => (panel.y.names || []).length));
    if (names) return Math.max(120, (narrow() ? 50 : 34) * names + 30);
    const base = this.spec.panels.length === 1 ? 320 : this.spec.panels.length === 2 ? 220 : 165;
    return narrow() ? Math.round(base * 0.82) : base;
  }

  /** The place that the figure will need, so that the page does not jump when it is drawn. */
  reserveHeight() {
    const bands = this.spec.ribbons.length ? this.spec.ribbons.length * 19 + 40 : 0;
    this.plots.style.minHeight = `${this.spec.panels.length * (this.panelHeight() + 42) + 46 + bands}px`;
  }

  width() {
    return Math.max(160, Math.floor(this.plots.clientWidth));
  }

  /** Decodes the columns once, for a thumbnail or for the figure itself. */
  prepare() {
    if (!this.panels) this.load();
  }

  /** Decodes the columns and settles ranges and colours. */
  load() {
    // The margin on the left holds tick labels, and the ribbons' names where they are short.
    const [least, most] = narrow() ? [44, 50] : [56, 92];
    const wanted = Math.ceil(longestName(this.spec.ribbons) + 9);
    this.gutter = wanted <= most ? Math.max(least, wanted) : least;
    const pen = measuring();
    const named = this.spec.panels.flatMap((panel) => panel.y.names || []).map((name) => pen.measureText(name).width);
    // Where there is no room for names beside the rows, they stand above them.
    if (named.length) this.gutter = narrow() ? 10 : Math.min(320, Math.ceil(Math.max(...named)) + 14);
    this.panels = this.spec.panels.map((panel) => ({
      y: panel.y,
      series: panel.series.map((s) => this.columns(s, panel.y.names)).filter((s) => s.xs.length),
    }));
    this.ribbons = this.spec.ribbons.map((band) => ({ ...band, edges: columnOf(band.edges) }));
    this.full = this.fullRange();
    this.view = [...this.full];
    for (const panel of this.panels) {
      const lines = panel.series.filter(isData);
      for (const s of panel.series) {
        s.isMarked = isData(s) && (lines.length > 1 || s.xs.length <= DOTS_MAX);
        if (s.style !== 'reference') continue;
        s.flat = s.ys.every((y) => y === s.ys[0]);
        if (s.xs.length === 1) [s.xs, s.ys] = [Float64Array.from(this.full), Float64Array.of(s.ys[0], s.ys[0])];
      }
    }
    paint(this.panels);
    this.endRoom = this.roomAtEnd();
  }

  /** A series with its values; names run from top to bottom, values from bottom to top. */
  columns(s, names) {
    const ys = columnOf(s.y);
    const columns = { ...s, xs: strictlyRising(columnOf(s.x)), ys: names ? ys.map((y) => names.length - 1 - y) : ys };
    return s.low === undefined ? columns : { ...columns, low: columnOf(s.low), high: columnOf(s.high) };
  }

  /** How wide the names at the lines' ends are; none where the figure is narrow. */
  roomAtEnd() {
    if (narrow()) return 0;
    const pen = measuring();
    pen.font = `600 11px ${cssColor('--text')}`;
    const widths = this.panels.flatMap(namedAtEnd).map((s) => pen.measureText(s.name).width);
    return widths.length ? Math.min(END_NAME_MAX, Math.ceil(Math.max(...widths)) + 12) : 0;
  }

  fullRange() {
    const { x } = this.spec;
    let [low, high] = [Infinity, -Infinity];
    const widen = (xs) => {
      low = Math.min(low, xs[0]);
      high = Math.max(high, xs[xs.length - 1]);
    };
    const all = this.panels.flatMap((panel) => panel.series);
    const spanning = all.filter((s) => s.style !== 'reference' || s.xs.length > 1);
    (spanning.length ? spanning : all).forEach((s) => widen(s.xs));
    // Intervals along x: the axis holds them whole.
    const isNamed = this.panels.some((panel) => panel.y.names);
    for (const s of isNamed ? all.filter((s) => s.low) : []) {
      s.low.forEach((v, i) => { if (v <= s.high[i]) [low, high] = [Math.min(low, v), Math.max(high, s.high[i])]; });
    }
    this.ribbons.filter((band) => band.edges.length).forEach((band) => widen(band.edges));
    if (!(low <= high)) [low, high] = x.log ? [1, 10] : [0, 1];
    if (low === high) [low, high] = x.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    const few = spanning.every((s) => s.xs.length <= DOTS_MAX);
    if (few && !this.ribbons.length) {
      // Dots at the very edge would be cut in half.
      const room = x.log ? Math.pow(high / low, 0.03) : (high - low) * 0.03;
      [low, high] = x.log ? [low / room, high * room] : [!isNamed && low >= 0 && low < room ? 0 : low - room, high + room];
    }
    return [x.min ?? low, x.max ?? high];
  }

  draw() {
    if (this.drawn) return;
    this.drawn = true;
    this.prepare();
    this.addTools();
    this.panels.forEach((panel, i) => {
      const last = i === this.panels.length - 1;
      const head = panelHead(panel);
      if (i === 0) head.append((this.at = element('span', { class: 'at' })));
      const host = element('div', { class: 'panel' });
      this.plots.append(head, host);
      this.charts.push(drawPanel(this, panel, host, last && !this.ribbons.length, this.panelHeight()));
      this.describe(host, panel);
    });
    if (this.ribbons.length) {
      const host = element('div', { class: 'panel ribbons', style: 'position: relative' });
      this.stateKey = stateKey(this);
      this.statesAt = element('p', { class: 'states-at' });
      this.plots.append(host, this.stateKey, this.statesAt);
      this.charts.push(drawRibbonChart(this, host));
      const names = this.ribbons.map((band) => band.name).join(', ');
      host.querySelector('canvas').setAttribute('aria-label', `States over ${withUnit(this.spec.x)}: ${names}`);
      host.querySelector('canvas').setAttribute('role', 'img');
    }
    this.plots.style.minHeight = '';
    this.recolor();
    this.listen();
    this.setView(this.full);
    this.note();
    this.frame.dataset.drawn = 'true';
  }

  describe(host, panel) {
    const canvas = host.querySelector('canvas');
    canvas.setAttribute('role', 'img');
    const names = panel.series.map((s) => s.name).join(', ');
    canvas.setAttribute('aria-label', `${withUnit(panel.y)} over ${withUnit(this.spec.x)}: ${names}. The values are in the CSV file.`);
  }

  note() {
    const cut = this.panels.filter((panel) => panel.cut);
    const told = cut.map((panel) => `${panel.y.label}: the axis cuts off a spike of ${panel.cut.name}, ${cutText(panel, this.spec.x.unit).slice(2)}.`);
    const note = this.frame.querySelector('.note');
    note.textContent = [this.spec.note, ...told].filter(Boolean).join(' ');
    note.hidden = !note.textContent;
    if (!cut.length) return;
    this.wholeButton = this.button('Show spikes', 'Show the whole range of y, spikes included', () => this.showWhole());
    this.wholeButton.setAttribute('aria-pressed', 'false');
  }

  /** Draws spikes whole, or cuts them off again. */
  showWhole() {
    this.isWhole = !this.isWhole;
    this.wholeButton.setAttribute('aria-pressed', String(this.isWhole));
    for (const chart of this.charts) chart.redraw(false, true);
    this.setView(this.view);
  }

  button(label, title, act) {
    const made = element('button', { type: 'button', title, 'aria-label': title }, label);
    made.addEventListener('click', act);
    this.frame.querySelector('.tools').append(made);
    return made;
  }

  addTools() {
    this.resetButton = this.button('Reset zoom', 'Show the whole range again (double-click)', () => this.reset());
    this.button('+', 'Zoom in (or drag over the plot)', () => this.zoomBy(ZOOM_STEP));
    this.button('−', 'Zoom out', () => this.zoomBy(1 / ZOOM_STEP));
    this.button('PNG', 'Download this figure as a PNG picture', () => savePng(this));
    this.button('SVG', 'Download this figure as an SVG picture', () => saveSvg(this));
    this.button('CSV', 'Download this figure’s values as CSV', () => save(this, 'csv', new Blob([figureCsv(this)], { type: 'text/csv' })));
  }

  /** Scale functions, so that a step on a log axis is a step of the eye. */
  toScreen(x) {
    return this.spec.x.log ? Math.log(x) : x;
  }

  fromScreen(v) {
    return this.spec.x.log ? Math.exp(v) : v;
  }

  zoomBy(factor) {
    const [low, high] = this.view.map((x) => this.toScreen(x));
    const cursor = this.cursorX === undefined ? (low + high) / 2 : this.toScreen(this.cursorX);
    this.setView([cursor - (cursor - low) * factor, cursor + (high - cursor) * factor].map((v) => this.fromScreen(v)));
  }

  panBy(share) {
    const [low, high] = this.view.map((x) => this.toScreen(x));
    const [first, last] = this.full.map((x) => this.toScreen(x));
    const step = Math.max(first - low, Math.min(last - high, (high - low) * share));
    this.setView([low + step, high + step].map((v) => this.fromScreen(v)));
  }

  /** Shows a range of x in all charts, within the figure's own. */
  setView(range) {
    let [min, max] = [Math.max(range[0], this.full[0]), Math.min(range[1], this.full[1])];
    if (!(max > min)) [min, max] = this.full;
    this.view = [min, max];
    for (const chart of this.charts) chart.setScale('x', { min, max });
    this.resetButton.disabled = min === this.full[0] && max === this.full[1];
  }

  reset() {
    this.setView(this.full);
  }

  /** A chart was zoomed by a drag: the others follow. */
  zoomed(chart) {
    const { min, max } = chart.scales.x;
    if (this.frame.dataset.drawn !== 'true' || (min === this.view[0] && max === this.view[1])) return;
    this.setView([min, max]);
  }

  /** Shows the values under the cursor; each chart tells it of its own. */
  cursorMoved(chart) {
    const { left } = chart.cursor;
    const over = left !== undefined && left >= 0;
    const x = over ? chart.posToVal(left, 'x') : undefined;
    this.cursorX = x;
    const reach = 0.015 * (this.toScreen(this.view[1]) - this.toScreen(this.view[0]));
    const near = (a, b) => Math.abs(this.toScreen(a) - this.toScreen(b)) <= reach;
    const panel = this.panels.find((panel) => panel.chart === chart);
    const isNamed = Boolean(panel && panel.y.names);
    for (const s of panel && !isNamed ? panel.series : []) s.value.textContent = over ? shown(valueAt(s, x, near)) : '';
    if (isNamed) {
      this.rowUnder(panel, over ? Math.round(chart.posToVal(chart.cursor.top, 'y')) : NaN);
      return;
    }
    if (this.statesAt && !panel) this.statesAt.textContent = over ? statesAt(this, x) : '';
    if (this.at) this.at.textContent = over ? `${this.spec.x.label} ${shown(x)}${this.spec.x.unit ? ` ${this.spec.x.unit}` : ''}` : '';
  }

  /** Shows the values of a row of an axis of names, with their intervals. */
  rowUnder(panel, row) {
    const { names } = panel.y;
    for (const s of panel.series.filter(isData)) {
      const i = s.ys.findIndex((y) => Math.round(y) === row);
      const ends = i >= 0 && s.low ? ` (${shown(s.low[i])}–${shown(s.high[i])})` : '';
      s.value.textContent = Number.isNaN(row) ? '' : i < 0 ? '–' : shown(s.xs[i]) + ends;
    }
    this.at.textContent = names[names.length - 1 - row] ?? '';
  }

  /** Puts the cursor of all charts at `x`. */
  cursorTo(x) {
    for (const chart of this.charts) chart.setCursor({ left: chart.valToPos(x, 'x'), top: chart.over.clientHeight / 2 });
  }

  listen() {
    this.plots.tabIndex = 0;
    this.plots.setAttribute('role', 'group');
    this.plots.setAttribute('aria-label', `${this.spec.title}. Arrow keys move the cursor, plus and minus zoom, Escape shows the whole range.`);
    this.plots.addEventListener('keydown', (event) => this.onKey(event));
    this.plots.addEventListener('touchmove', (event) => this.onTouch(event), { passive: true });
    let width = this.width();
    new ResizeObserver(() => {
      if (this.width() === width || this.printing) return;
      width = this.width();
      this.resize(width);
    }).observe(this.plots);
  }

  resize(width) {
    for (const chart of this.charts) chart.setSize({ width, height: chart.height });
  }

  onKey(event) {
    if (event.target !== this.plots || event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this.view.map((x) => this.toScreen(x));
    const now = this.cursorX === undefined ? (low + high) / 2 : this.toScreen(this.cursorX);
    const step = (high - low) / (event.shiftKey ? 12 : 100);
    const move = (by) => {
      if (now + by < low || now + by > high) this.panBy(by < 0 ? -0.25 : 0.25);
      this.cursorTo(this.fromScreen(Math.max(low, Math.min(high, now + by))));
    };
    const keys = {
      ArrowLeft: () => move(-step), ArrowRight: () => move(step),
      '+': () => this.zoomBy(ZOOM_STEP), '=': () => this.zoomBy(ZOOM_STEP), '-': () => this.zoomBy(1 / ZOOM_STEP),
      Escape: () => this.reset(), '0': () => this.reset(),
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  }

  /** A finger drawn sideways moves the cursor; up and down still scroll the page. */
  onTouch(event) {
    const chart = this.charts.find((chart) => chart.over.contains(event.target));
    if (!chart) return;
    const x = event.touches[0].clientX - chart.over.getBoundingClientRect().left;
    if (x >= 0 && x <= chart.over.clientWidth) this.cursorTo(chart.posToVal(x, 'x'));
  }

  /** After a change of theme. */
  recolor() {
    for (const s of this.panels.flatMap((panel) => panel.series)) s.picture.style.color = s.color();
    if (this.stateKey) paintStateKey(this.stateKey);
    for (const chart of this.charts) chart.redraw(false);
  }

  /** On paper a picture of lines stands for the canvas, which would be coarse there; without `width` it goes again. */
  print(width) {
    this.printing = width !== undefined;
    this.frame.querySelector('.on-paper')?.remove();
    if (!this.printing) return;
    const paper = element('div', { class: 'on-paper' });
    paper.innerHTML = pictureSvg(this, { width, isPlain: true });
    this.plots.after(paper);
  }
}
