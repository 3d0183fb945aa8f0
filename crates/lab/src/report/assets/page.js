// The page: draws figures as they come near, filters claims, changes the theme, prepares for print.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/** The width of A4 less its margins, in CSS pixels. */
const PAPER_WIDTH = 680;
/** How far below the window a figure is drawn ahead. */
const AHEAD = '700px';

const frames = [...document.querySelectorAll('figure[data-figure]')];
const views = frames.map((frame) => new FigureView(frame, DATA.figures[Number(frame.dataset.figure)], Number(frame.dataset.figure)));
const state = { figures: views.length, drawn: 0, errors: [], drawAll: () => views.forEach(drawView) };
window.bbrlab = state;
addEventListener('error', (event) => state.errors.push(String(event.message)));
addEventListener('unhandledrejection', (event) => state.errors.push(String(event.reason)));

function drawView(view) {
  if (view.drawn) return;
  try {
    view.draw();
    state.drawn += 1;
  } catch (error) {
    // One broken figure must not take the others with it; it says so in its place.
    state.errors.push(`${view.spec.id}: ${error.stack || error}`);
    view.plots.textContent = 'This figure could not be drawn.';
    console.error(error);
  }
}

function drawWhenNear() {
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((entry) => entry.isIntersecting)) {
      observer.unobserve(entry.target);
      drawView(views[frames.indexOf(entry.target)]);
    }
  }, { rootMargin: AHEAD });
  frames.forEach((frame) => observer.observe(frame));
}

function recolorAll() {
  const button = document.getElementById('theme');
  button.querySelector('span').textContent = isDark() ? 'Light' : 'Dark';
  button.setAttribute('aria-label', isDark() ? 'Change to light colours' : 'Change to dark colours');
  views.filter((view) => view.drawn && view.panels).forEach((view) => view.recolor());
}

/** The chosen theme is remembered where the browser lets a file remember anything. */
function remembered(theme) {
  try {
    if (theme) localStorage.setItem('bbrlab-theme', theme);
    return localStorage.getItem('bbrlab-theme');
  } catch {
    return null;
  }
}

function setUpTheme() {
  const button = document.getElementById('theme');
  const chosen = remembered();
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;
  button.hidden = false;
  button.addEventListener('click', () => {
    const theme = isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    remembered(theme);
    recolorAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolorAll);
  recolorAll();
}

function setUpFilter() {
  const buttons = [...document.querySelectorAll('.tally button')];
  const table = document.getElementById('claims-table');
  const show = (filter) => {
    buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.filter === filter)));
    let any = false;
    for (const body of table.tBodies) {
      const rows = [...body.querySelectorAll('tr[data-verdict]')];
      rows.forEach((row) => { row.hidden = filter !== 'all' && row.dataset.verdict !== filter; });
      body.hidden = rows.every((row) => row.hidden);
      any = any || !body.hidden;
    }
    document.querySelector('#claims .empty').hidden = any;
  };
  buttons.forEach((button) => button.addEventListener('click', () => show(button.dataset.filter)));
}

function setUpPrint() {
  let before;
  addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = 'light';
    state.drawAll();
    recolorAll();
    views.filter((view) => view.charts.length).forEach((view) => view.print(PAPER_WIDTH));
  });
  addEventListener('afterprint', () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    recolorAll();
    views.filter((view) => view.charts.length).forEach((view) => view.print());
  });
}

/** Marks the section being read in the contents. */
function setUpContents() {
  const links = new Map([...document.querySelectorAll('.contents a')].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) links.forEach((link, id) => link.classList.toggle('here', id === entry.target.id));
    }
  }, { rootMargin: '-15% 0px -75% 0px' });
  for (const id of links.keys()) {
    const section = document.getElementById(id);
    if (section) observer.observe(section);
  }
}

setUpTheme();
if (document.getElementById('claims-table')) setUpFilter();
setUpPrint();
setUpContents();
drawWhenNear();
if (location.hash === '#all') state.drawAll();
addEventListener('hashchange', () => location.hash === '#all' && state.drawAll());
