// The page: draws figures as they come near, unfolds and filters claims, changes the theme, prepares for print.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/** The width of A4 less its margins, in CSS pixels. */
const PAPER_WIDTH = 680;
/** How far below the window a figure is drawn ahead. */
const AHEAD = '700px';

const frames = [...document.querySelectorAll('figure[data-figure]')];
const views = frames.map((frame) => new FigureView(frame, DATA.figures[Number(frame.dataset.figure)], Number(frame.dataset.figure)));
const state = { figures: views.length, drawn: 0, errors: [], drawAll };
window.bbrlab = state;
addEventListener('error', (event) => state.errors.push(String(event.message)));
addEventListener('unhandledrejection', (event) => state.errors.push(String(event.reason)));

/** Unfolds all and draws every figure, for tests and for paper. */
function drawAll() {
  folds().forEach((fold) => { fold.open = true; });
  views.forEach(drawView);
}

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
  document.querySelectorAll('.numbers [data-key]').forEach((number) => number.style.setProperty('--key', keyColor(number.dataset.key)));
  drawThumbnails();
}

function drawThumbnails() {
  for (const link of document.querySelectorAll('[data-thumbnail]')) {
    const view = views[Number(link.dataset.thumbnail)];
    link.querySelector('.picture').innerHTML = thumbnailSvg(view, Number(link.dataset.panel), 300, 190);
    link.querySelector('svg').setAttribute('aria-hidden', 'true');
    link.querySelector('.keys')?.remove();
    link.append(element('span', { class: 'keys', 'aria-hidden': 'true' }, ...thumbnailKeys(view, Number(link.dataset.panel))));
  }
}

/** All that folds but tables of values. */
function folds() {
  return [...document.querySelectorAll('details.claim, details.fold')];
}

/** Shows what a link inside the page leads to: unfolds what holds it. */
function reveal(id) {
  const target = id && document.getElementById(id);
  if (!target) return;
  for (let fold = target.closest('details'); fold; fold = fold.parentElement.closest('details')) fold.open = true;
  const view = views[frames.indexOf(target)];
  if (view) drawView(view);
  target.scrollIntoView();
}

function setUpFolds() {
  const toHash = (link) => decodeURIComponent(link.hash.slice(1));
  addEventListener('hashchange', () => reveal(toHash(location)));
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) reveal(toHash(link));
  });
  const button = document.getElementById('unfold');
  if (button) {
    button.parentElement.hidden = false;
    button.addEventListener('click', () => {
      const isOpen = button.textContent === 'Fold all';
      folds().forEach((fold) => { fold.open = !isOpen; });
      button.textContent = isOpen ? 'Unfold all' : 'Fold all';
    });
  }
  for (const text of document.querySelectorAll('pre.values')) {
    const fold = text.closest('details');
    fold.addEventListener('toggle', () => setAsTable(text), { once: true });
  }
  if (location.hash) reveal(toHash(location));
}

/** Tab-separated text as a table. */
function setAsTable(text) {
  const numbers = new Set(text.dataset.numbers.split(' '));
  const [head, ...rows] = text.textContent.split('\n').map((line) => line.split('\t'));
  const cell = (name) => (content, i) => element(name, numbers.has(String(i)) ? { class: 'number' } : {}, content);
  text.replaceWith(element('table', {},
    element('thead', {}, element('tr', {}, ...head.map(cell('th')))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map(cell('td')))))));
}

/** A button beside each command that copies it. */
function setUpCommands() {
  if (!navigator.clipboard) return;
  for (const line of document.querySelectorAll('.command')) {
    const button = element('button', { type: 'button', 'aria-label': 'Copy the command' }, 'Copy');
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(line.querySelector('code').textContent);
        button.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(line.querySelector('code'));
        button.textContent = 'Selected';
      }
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
    line.append(button);
  }
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
  const claims = document.getElementById('claims');
  const groups = [...document.querySelectorAll('#claims-table .claim')].filter((group) => group.tagName !== 'TABLE');
  let opened = [];
  const show = (filter) => {
    const isAll = filter === 'all';
    buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.filter === filter)));
    opened.forEach((group) => { group.open = false; });
    opened = [];
    let any = false;
    for (const group of groups) {
      const rows = [...group.querySelectorAll('tr[data-verdict]')];
      rows.forEach((row) => { row.hidden = !isAll && row.dataset.verdict !== filter; });
      group.hidden = rows.every((row) => row.hidden);
      any = any || !group.hidden;
      if (isAll || group.hidden || group.open !== false) continue;
      group.open = true;
      opened.push(group);
    }
    claims.classList.toggle('filtered', !isAll);
    claims.querySelector('.empty').hidden = any;
  };
  buttons.forEach((button) => button.addEventListener('click', () => show(button.dataset.filter)));
}

/** Paper shows all that folds but the tables of values, in light colours. */
function setUpPrint() {
  let before;
  let opened = [];
  addEventListener('beforeprint', () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = 'light';
    opened = folds().filter((fold) => !fold.open);
    drawAll();
    recolorAll();
    views.filter((view) => view.charts.length).forEach((view) => view.print(PAPER_WIDTH));
  });
  addEventListener('afterprint', () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    opened.forEach((fold) => { fold.open = false; });
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
setUpFolds();
setUpCommands();
setUpPrint();
setUpContents();
drawWhenNear();
if (location.hash === '#all') drawAll();
addEventListener('hashchange', () => location.hash === '#all' && drawAll());
