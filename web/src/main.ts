// The playground: the views, the state in the address, and the keys.
// SPDX-License-Identifier: Apache-2.0 OR MIT

import { FlowControls, LIVE, PathControls } from './controls';
import { h, isStill, put } from './dom';
import { Engine } from './engine';
import { showModel } from './model';
import { Game } from './game';
import { LESSONS } from './learn';
import { Player } from './player';
import { CASES, CASES_MISSING, CLAIMS, SITUATIONS } from './presets';
import type { Checked, Given, StepTo, Tables } from './protocol';
import { DEFAULT, type State, type View, command, get, python, read, set, write } from './state';
import { secondsText, timeShown } from './units';

const SPEEDS: [number, string][] = [
  [10, '10 times faster'], [1, '1:1, real time'], [1 / 3, '1:3'], [0.1, '1:10'], [1 / 30, '1:30'], [0.01, '1:100'], [1 / 300, '1:300'], [0.001, '1:1000'],
];
/** Time that a round trip should take for the viewer, seconds. Ours. */
const ROUND_SHOWN_S = 1.3;

const $ = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

const engine = new Engine();
const notes: string[] = [];
let state: State = read(location.hash, notes);
let tables: Tables;
let player: Player;
let path: PathControls;
let flows: FlowControls;
let rivals: FlowControls;
let game: Game;
let savedAt = 0;
/** Addresses are shown one after another. */
let restored: Promise<unknown> = Promise.resolve();
let restores = 0;

function note(text: string): void {
  $('note').textContent = text;
  $('note').hidden = !text;
}

/** The first complaint about an address, and how many more there are. */
function noteAll(lines: string[]): void {
  if (lines.length) note(lines.length > 1 ? `${lines[0]} (and ${lines.length - 1} more; the defaults are shown)` : `${lines[0]}`);
}

function save(): void {
  savedAt = performance.now();
  state.t_ns = player.playing ? 0 : Math.round(player.now_ns);
  const hash = write(state);
  if (hash !== location.hash) history.replaceState(null, '', hash);
}

function slotsOf(): { given: Given }[] {
  if (state.view === 'pair') {
    const rival = state.rival.length ? state.rival : ['cubic'];
    return [{ given: state.given }, { given: { ...state.given, flows: rival } }];
  }
  return [{ given: state.given }];
}

/** Opens the runs of the present state. A scenario that is wrong leaves the old ones. */
async function open(until_ns: number): Promise<void> {
  const kinds = state.view === 'pair' ? ['rate', 'rtt', 'inflight'] : undefined;
  await player.open(slotsOf(), until_ns, kinds);
  lay();
  player.speed = state.speed || usualSpeed();
  $<HTMLSelectElement>('speed').value = nearestSpeed(player.speed);
  showControls();
}

function usualSpeed(): number {
  const wanted = player.views[0].checked.rtt_ns / 1e9 / ROUND_SHOWN_S;
  return SPEEDS.map(([speed]) => speed).reduce((best, speed) => (Math.abs(Math.log(speed / wanted)) < Math.abs(Math.log(best / wanted)) ? speed : best));
}

function nearestSpeed(speed: number): string {
  return String(SPEEDS.map(([one]) => one).reduce((best, one) => (Math.abs(Math.log(one / speed)) < Math.abs(Math.log(best / speed)) ? one : best)));
}

/** Puts the canvases of the runs into the page. */
function lay(): void {
  const pair = player.views.length > 1;
  $('stage').classList.toggle('pair', pair && state.view === 'pair');
  put($('pipes'), ...player.views.map((view) => {
    const name = view.looks.map(({ letter, cc }) => `${letter} ${cc}`).join(', ');
    return h('figure', { class: 'run' }, pair && h('figcaption', {}, name), view.pipe.canvas);
  }));
  put($('figures'), ...player.views.map(({ charts }) => charts.root));
  $('figures').classList.toggle('pair', pair);
  const select = $<HTMLSelectElement>('step-flow');
  put(select, ...player.views[0].looks.map((look, index) => h('option', { value: index }, `${look.letter} ${look.cc}`)));
}

function showControls(): void {
  const [view] = player.views;
  if (!view || state.view === 'game') return;
  path.show(state.given, view.checked.scenario, scheduled());
  flows.show(state.given.flows.length ? state.given.flows : filled<string[]>('flow') ?? []);
  rivals.show(state.rival.length ? state.rival : ['cubic']);
  showChanges();
  $<HTMLInputElement>('time').max = String(player.duration_ns / 1e9);
}

/** A key's value in the first run's scenario: with the values of a path's name, of a JSON file and of defaults. */
function filled<T>(key: string): T | undefined {
  return player.views[0]?.checked.scenario[key] as T | undefined;
}

/** The schedule of a scenario: its own, or that of its path's name or JSON file. */
function steps(given: Given = state.given): string[] {
  return (get(given, 'schedule') ?? filled<string>('schedule') ?? '').split(';').filter(Boolean);
}

/** Values of the schedule that are in force now. */
function scheduled(): Record<string, string> {
  const now: Record<string, string> = {};
  for (const step of steps()) {
    const [at, values] = [step.slice(0, step.indexOf(':')), step.slice(step.indexOf(':') + 1)];
    if (Number.parseFloat(at) * (at.endsWith('ms') ? 1e6 : at.endsWith('us') ? 1e3 : 1e9) > player.now_ns + 2000) continue;
    for (const one of values.split(',')) {
      const [key, value] = one.split('=');
      if (value !== undefined) now[key] = value;
    }
  }
  return now;
}

function showChanges(): void {
  const all = steps();
  const list = $('changes');
  list.hidden = all.length === 0;
  const shown = all.slice(-6);
  put(list, h('span', {}, all.length > 6 ? `${all.length} changes, the last:` : 'Changes:'), ...shown.map((step) => h('button', {
    type: 'button', title: 'Remove this change and run again', 'aria-label': `Remove the change ${step}`,
    onclick: () => { void apply(set(state.given, 'schedule', all.filter((one) => one !== step).join(';')), true); },
  }, `${step} ×`)));
}

/** Takes over a scenario and runs it again, up to the present time if `stay`. */
async function apply(given: Given, stay: boolean): Promise<void> {
  const before = state.given;
  state.given = given;
  const wasPlaying = player.playing;
  try {
    await open(stay ? player.clock : 0);
  } catch (error) {
    state.given = before;
    throw error;
  }
  player.playing = wasPlaying;
  note('');
  save();
}

async function setKey(key: string, value: string): Promise<void> {
  if (!LIVE.includes(key) || player.now_ns === 0) return apply(set(state.given, key, value), true);
  await player.change((given, at_ns) => withStep(given, key, value, at_ns));
  state.given = player.views[0].slot.given;
  note('');
  showChanges();
  save();
}

/** The scenario with one more step in its schedule. Of the same moment and key the last one holds. */
function withStep(given: Given, key: string, value: string, at_ns: number): Given {
  const at = secondsText(at_ns);
  const old = steps(given).filter((step) => !step.startsWith(`${at}:${key}=`));
  return set(given, 'schedule', [...old, `${at}:${key}=${value}`].join(';'));
}

async function setFlows(list: string[]): Promise<void> {
  return apply({ ...state.given, flows: list }, true);
}

async function setRivals(list: string[]): Promise<void> {
  const before = state.rival;
  state.rival = list;
  try {
    await apply(state.given, true);
  } catch (error) {
    state.rival = before;
    throw error;
  }
}

function setPlaying(playing: boolean): void {
  if (playing && player.over) player.seek(0);
  player.playing = playing;
  showTransport();
  if (!playing) { showControls(); save(); }
}

function showTransport(): void {
  const button = $('play');
  const words = player.playing ? 'Pause' : 'Play';
  if (button.textContent !== words) button.textContent = words;
  const time = $<HTMLInputElement>('time');
  if (document.activeElement !== time || player.playing) time.value = String(player.now_ns / 1e9);
  time.setAttribute('aria-valuetext', `${(player.now_ns / 1e9).toFixed(3)} seconds`);
  $('clock').textContent = `${(player.now_ns / 1e9).toFixed(player.speed < 0.05 ? 4 : 2)} s`;
}

function setHide(hide: boolean): void {
  state.hide = player.hide = hide;
  $('hide').setAttribute('aria-pressed', String(hide));
  document.body.classList.toggle('hiding', hide);
  $('model').hidden = !hide;
  if (hide && player.views[0]) showModel($('model'), player.views[0], player.now_ns);
}

async function setView(view: View): Promise<void> {
  state.view = view;
  for (const link of document.querySelectorAll<HTMLElement>('nav [data-view]')) {
    if (link.dataset.view === view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  $('lesson').hidden = view !== 'learn';
  $('game').hidden = view !== 'game';
  $('side').hidden = view === 'game';
  $('rivals').hidden = view !== 'pair';
  document.body.dataset.view = view;
  if (view === 'game') { await game.start(); $<HTMLSelectElement>('speed').value = '1'; }
  else {
    game.stop();
    if (view === 'learn') await showLesson();
    else await open(state.t_ns);
  }
}

async function showLesson(): Promise<void> {
  const lesson = LESSONS[state.step];
  [state.given, state.speed] = [structuredClone(lesson.given), lesson.speed];
  setHide(!!lesson.hide);
  await open(lesson.t_s * 1e9);
  const go = (step: number) => () => { state.step = step; void showLesson().then(save); };
  const attempt = h('button', { type: 'button', class: 'try' }, lesson.attempt.text);
  attempt.addEventListener('click', () => {
    if (lesson.attempt.change) void setKey(...lesson.attempt.change).then(() => setPlaying(true)).catch(failed);
    if (lesson.attempt.hide !== undefined) setHide(lesson.attempt.hide);
  });
  put($('lesson'),
    h('p', { class: 'count' }, `Step ${state.step + 1} of ${LESSONS.length}`), h('h2', {}, lesson.title), h('p', {}, lesson.text),
    h('p', { class: 'attempt' }, h('b', {}, 'Try: '), attempt),
    h('p', { class: 'turn' },
      h('button', { type: 'button', disabled: state.step === 0, onclick: go(state.step - 1) }, '← Back'),
      h('button', { type: 'button', class: 'primary', disabled: state.step === LESSONS.length - 1, onclick: go(state.step + 1) }, 'Next →')));
  if (!isStill()) setPlaying(true);
}

function failed(error: Error): void {
  note(error.message);
}

async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    note(`${what} is in the clipboard: ${text.length > 160 ? `${text.slice(0, 160)}…` : text}`);
  } catch {
    note(text);
  }
}

function download(text: string, name: string): void {
  const link = h('a', { href: URL.createObjectURL(new Blob([text])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const SHARE: Record<string, () => Promise<void> | void> = {
  link: () => { save(); return copy(location.href, 'The link'); },
  command: () => copy(command(state.given), 'The command'),
  python: () => copy(python(state.given), 'The Python'),
  json: async () => download(await engine.ask<string>({ type: 'result', given: state.given }), 'result.json'),
  toml: async () => download(await engine.ask<string>({ type: 'toml', given: state.given }), 'scenario.toml'),
};

const KEYS: Record<string, () => void> = {
  ' ': () => setPlaying(!player.playing),
  k: () => setPlaying(!player.playing),
  h: () => setHide(!state.hide),
  '.': () => stepOnce('packet'),
  a: () => stepOnce('ack'),
  r: () => stepOnce('round'),
  j: () => back(1),
  Home: () => { player.seek(0); save(); },
};

function stepOnce(what: StepTo): void {
  player.step(Number($<HTMLSelectElement>('step-flow').value) || 0, what);
}

/** Goes back by round trips. */
function back(rounds: number): void {
  const [view] = player.views;
  if (view) player.seek(player.now_ns - rounds * view.checked.rtt_ns);
}

function listen(): void {
  $('play').onclick = () => setPlaying(!player.playing);
  $('hide').onclick = () => setHide(!state.hide);
  $('back').onclick = () => back(1);
  $('restart').onclick = () => { player.seek(0); };
  for (const what of ['packet', 'ack', 'round'] as const) $(`step-${what}`).onclick = () => stepOnce(what);
  const time = $<HTMLInputElement>('time');
  time.addEventListener('input', () => { player.playing = false; player.seek(Number(time.value) * 1e9); });
  time.addEventListener('change', save);
  const speed = $<HTMLSelectElement>('speed');
  put(speed, ...SPEEDS.map(([value, words]) => h('option', { value }, words)));
  speed.addEventListener('change', () => { state.speed = player.speed = Number(speed.value); save(); });
  $<HTMLInputElement>('whole').addEventListener('change', (event) => { player.wholeRun = (event.target as HTMLInputElement).checked; });
  const preset = $<HTMLSelectElement>('preset');
  const options = (all: typeof SITUATIONS) => all.map(({ name, title }) => h('option', { value: name }, title));
  put(preset, h('option', { value: '' }, 'Choose a situation…'), h('optgroup', { label: 'Situations' }, ...options(SITUATIONS)),
    h('optgroup', { label: 'Published claims, one run each' }, ...options(CLAIMS)), h('optgroup', { label: 'Test cases of the draft' }, ...options(CASES)));
  $('missing').append(h('p', {}, `${CASES_MISSING.length} of the draft's ${CASES.length + CASES_MISSING.length} cases change what a schedule does not have; bbrlab conform runs them.`),
    h('ul', {}, ...CASES_MISSING.map((line) => h('li', {}, line))));
  preset.addEventListener('change', () => {
    const found = [...SITUATIONS, ...CLAIMS, ...CASES].find(({ name }) => name === preset.value);
    if (!found) return;
    state.speed = 0;
    void apply(structuredClone(found.given), false).then(() => { note(found.what); if (!isStill()) setPlaying(true); }).catch(failed);
  });
  for (const [name, act] of Object.entries(SHARE)) $(`share-${name}`).onclick = () => { void Promise.resolve(act()).catch(failed); };
  for (const link of document.querySelectorAll<HTMLAnchorElement>('nav [data-view]')) {
    link.addEventListener('click', (event) => {
      event.preventDefault();
      setHide(false);
      state.t_ns = 0;
      state.speed = 0;
      if (state.view === 'learn') state.given = structuredClone(DEFAULT);
      void setView(link.dataset.view as View).then(() => { if (!isStill()) setPlaying(true); save(); }).catch(failed);
    });
  }
  $('theme').onclick = () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    $('theme').textContent = isDark() ? 'Light' : 'Dark';
  };
  $('theme').textContent = isDark() ? 'Light' : 'Dark';
  // The address of the event: by now the present one may have been replaced by `save`.
  addEventListener('hashchange', ({ newURL }) => { restored = restored.then(() => restore(new URL(newURL).hash)).catch(failed).finally(() => { restores++; }); });
  addEventListener('keydown', (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches('input[type=text], select, textarea')) return;
    if (target.matches('button, a, summary, input') && (event.key === ' ' || event.key === 'Enter' || event.key === 'Home')) return;
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(); }
  });
}

/** Shows the state of the address. A scenario that is not accepted is replaced by the default, with one line. */
async function restore(hash: string): Promise<void> {
  const lines: string[] = [];
  state = read(hash, lines);
  note('');
  try {
    await engine.ask<Checked>({ type: 'check', given: state.given });
  } catch (error) {
    lines.unshift((error as Error).message);
    state.given = structuredClone(DEFAULT);
  }
  try {
    await setView(state.view);
  } catch (error) {
    lines.unshift((error as Error).message);
    [state.view, state.given, state.rival] = ['pipe', structuredClone(DEFAULT), []];
    await setView('pipe');
  }
  if (state.view !== 'learn') setHide(state.hide);
  noteAll(lines);
}

function run(): void {
  let last = performance.now();
  let slow = 0;
  const picture = (wall: number) => {
    requestAnimationFrame(picture);
    const passed = wall - last;
    last = wall;
    player.tick(passed);
    if (state.view === 'game') game.tick();
    // Text is set at a fifth of the rate: it costs a layout.
    if (slow++ % 5) return;
    showTransport();
    if (state.hide && player.views[0]) showModel($('model'), player.views[0], player.now_ns);
    if (player.playing && wall - savedAt > 2000) save();
  };
  requestAnimationFrame(picture);
}

async function main(): Promise<void> {
  tables = await engine.ask<Tables>({ type: 'tables' });
  player = new Player(engine, tables);
  player.onfail = note;
  game = new Game(player, $('game'), lay);
  path = new PathControls(tables, { setKey, setFlows });
  flows = new FlowControls(tables, { setKey, setFlows }, 'Flow');
  rivals = new FlowControls(tables, { setKey, setFlows: setRivals }, 'Rival');
  put($('path'), path.root);
  put($('flows'), flows.root);
  put($('rival-flows'), rivals.root);
  $('version').textContent = `bbrlab ${tables.version}`;
  listen();
  await restore(location.hash);
  Object.assign(window, { bbrlab: { player, get state() { return state; }, get restores() { return restores; }, timeShown, engine, command: () => command(state.given), python: () => python(state.given), isReady: true } });
  if (isStill()) note($('note').textContent || 'Motion is reduced, as your system asks: press Play, or step.');
  else if (state.view !== 'game') setPlaying(state.t_ns === 0 || state.view === 'learn');
  run();
}

main().catch((error: Error) => note(`The simulator did not start: ${error.message}`));
