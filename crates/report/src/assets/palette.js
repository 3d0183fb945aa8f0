// Colours: one an algorithm in every figure, told apart by the colour-blind, in light and in dark.
// SPDX-License-Identifier: Apache-2.0 OR MIT

// After Okabe and Ito (2008), darkened or lightened until each has a contrast of 3 to its page and the first eight
// stay apart under protanopia and deuteranopia (Machado et al. 2009).
const HUES = {
  blue: ['#00568f', '#4f9fe8'], orange: ['#c04a00', '#ff8638'], green: ['#009a72', '#35cfa0'],
  purple: ['#c35a9e', '#f0a3d4'], amber: ['#b58a00', '#f2cc3a'], sky: ['#3f9ad6', '#a5e3ff'],
  grey: ['#454d57', '#9aa5b0'], brown: ['#6a3a16', '#b98457'], olive: ['#5d6600', '#c9d46a'], rose: ['#a3152f', '#ff6f7c'],
  teal: ['#00707c', '#5fd3dc'],
};
const CYCLE = ['blue', 'orange', 'green', 'purple', 'amber', 'sky', 'brown', 'grey', 'rose', 'olive'];
/** For what is no algorithm that we know: none of the hues that readers learn. */
const SPARE = ['teal', 'brown', 'olive', 'rose', 'sky', 'amber'];
const DASHES = [[], [9, 3], [2, 3], [9, 3, 2, 3], [5, 3], [14, 4]];
/** Dashes of the references of a panel, so that several are told apart. */
const REFERENCE_DASHES = [[5, 4], [1.5, 3], [11, 3, 2, 3], [14, 5]];
/** Up to how many values a line is dashed: on dense ones dashes only add noise. */
const DASHED_MAX = 400;
const MARKERS = ['circle', 'square', 'triangle', 'diamond', 'cross', 'down', 'plus'];

// Hue, dash and marker of each algorithm: a family shares a hue, its members differ in dash and marker.
const ALGORITHMS = {
  'bbr1': ['blue', 0, 'circle'], 'bbr': ['blue', 0, 'circle'], 'bbr1-draft00': ['blue', 1, 'plus'],
  'cubic': ['orange', 0, 'square'], 'reno': ['grey', 0, 'down'], 'dctcp': ['grey', 1, 'square'], 'prague': ['grey', 2, 'diamond'],
  'bbr2': ['green', 0, 'triangle'], 'bbr2-ietf100': ['green', 1, 'down'],
  'bbr3': ['purple', 0, 'diamond'], 'bbr3-draft06': ['purple', 0, 'diamond'], 'bbr3-linux': ['purple', 1, 'plus'],
  'bbr-lab': ['rose', 0, 'diamond'], 'tuned': ['rose', 0, 'cross'],
  'bbr-cpa': ['amber', 0, 'down'], 'bbr-s': ['sky', 0, 'square'], 'bbr-s-p85': ['sky', 1, 'plus'], 'bbr-s-kalman': ['sky', 2, 'cross'],
  'bbr-acd': ['brown', 0, 'plus'], 'acd-linux': ['brown', 0, 'plus'], 'acd-ns3': ['brown', 1, 'cross'], 'acd-once': ['brown', 2, 'down'],
  'bbr-apg': ['olive', 4, 'cross'], 'davis': ['rose', 5, 'triangle'], 'fixed': ['teal', 0, 'circle'], 'queue': ['grey', 0, 'circle'],
};

// The states' names, fills in light and patterns. Long quiet states are pale, short ones strong.
const STATES = {
  startup: ['Startup', '#f0a860', 'rising'], slow_start: ['Slow start', '#f5d08c', 'rising'],
  drain: ['Drain', '#7fb2dc', 'falling'],
  probe_bw_up: ['Up', '#e8794a', 'plain'], probe_bw_refill: ['Refill', '#f3cf6d', 'plain'],
  probe_bw_down: ['Down', '#5d9fd6', 'plain'], probe_bw_cruise: ['Cruise', '#cfdad2', 'plain'],
  probe_bw: ['ProbeBW', '#cfdad2', 'plain'],
  probe_rtt: ['ProbeRTT', '#c58bc0', 'upright'],
  congestion_avoidance: ['Cong. avoidance', '#d5dae6', 'plain'],
  recovery: ['Recovery', '#e7a1a8', 'crossed'], loss: ['Time-out', '#d9636f', 'crossed'],
};
const OTHER_STATES = ['#b9c7a0', '#d7b899', '#a9c9c9', '#c9b3d9', '#d9d199'];

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

/** The page's colours and fonts by theme: asking for them costs a layout each time. */
const cssKnown = new Map();

function cssColor(name) {
  const key = `${isDark()} ${name}`;
  if (!cssKnown.has(key)) cssKnown.set(key, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return cssKnown.get(key);
}

/** A number from a text, the same on every machine. */
function numberOf(text) {
  let n = 7;
  for (const c of text) n = (n * 31 + c.codePointAt(0)) >>> 0;
  return n;
}

function rgb(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function mixed(hex, other, share) {
  const [a, b] = [rgb(hex), rgb(other)];
  return `#${a.map((v, i) => Math.round(v + (b[i] - v) * share).toString(16).padStart(2, '0')).join('')}`;
}

/** The keys of the whole page that name no known algorithm, in an order that no figure depends on. */
let unknownKeys = null;

function unknown(base) {
  if (!unknownKeys) {
    const keys = DATA.figures.flatMap((f) => f.panels).flatMap((p) => p.series).filter((s) => s.style !== 'reference' && s.style !== 'area')
      .map((s) => baseOf(s.key || s.name)).filter((key) => !familyOf(key));
    unknownKeys = [...new Set(keys)].sort();
  }
  const nth = Math.max(0, unknownKeys.indexOf(base));
  return [SPARE[nth % SPARE.length], Math.floor(nth / SPARE.length) % DASHES.length, MARKERS[(nth + 3) % MARKERS.length]];
}

/** A colour key without its flow number. */
function baseOf(key) {
  return /^(.*?)(?:#\d+)?$/s.exec(key)[1];
}

/** The algorithm that a key begins with: `bbr1` of `bbr1 linux`, `bbr3` of `bbr3,cwnd_gain=2`. */
function familyOf(base) {
  const name = base.toLowerCase();
  if (Object.hasOwn(ALGORITHMS, name)) return name;
  const head = name.split(/[ ,]/)[0];
  return head !== name && Object.hasOwn(ALGORITHMS, head) ? head : null;
}

/** Hue, dash and marker of a colour key without its flow number. */
function styleOf(base) {
  const family = familyOf(base);
  if (!family) return unknown(base);
  const [hue, dash, marker] = ALGORITHMS[family];
  if (family === base.toLowerCase()) return [hue, dash, marker];
  // A variant: its family's hue, a dash and a marker of its own.
  const n = numberOf(base);
  return [hue, 1 + (n % (DASHES.length - 1)), MARKERS[(MARKERS.indexOf(marker) + 1 + (n % (MARKERS.length - 1))) % MARKERS.length]];
}

/**
 * Gives each series of a figure `color()`, `dash` and `marker`. One algorithm has one hue. Several flows of one algorithm get
 * shades and dashes of it; where the figure holds one algorithm only, each flow gets a hue of its own, the first the algorithm's.
 */
function paint(panels) {
  const flowsOf = new Map();
  for (const panel of panels) {
    const met = new Map();
    for (const s of panel.series.filter(isData)) {
      const key = s.key || s.name;
      const [, base, flow] = /^(.*?)(?:#(\d+))?$/s.exec(key);
      const place = `${s.style} ${key}`;
      met.set(place, (met.get(place) || 0) + 1);
      s.base = base;
      s.flow = flow === undefined ? `~${met.get(place)}` : flow;
      if (!flowsOf.has(base)) flowsOf.set(base, new Map());
      const flows = flowsOf.get(base);
      if (!flows.has(s.flow)) flows.set(s.flow, flows.size);
    }
  }
  const algorithms = [...flowsOf.keys()].filter((base) => base !== 'queue');
  for (const panel of panels) {
    let references = 0;
    const taken = new Set();
    for (const s of panel.series) {
      if (!isData(s)) {
        s.color = () => cssColor(s.style === 'area' ? '--area' : '--soft');
        s.dash = s.style === 'area' ? [] : REFERENCE_DASHES[references++ % REFERENCE_DASHES.length];
        continue;
      }
      const nth = flowsOf.get(s.base).get(s.flow);
      colorSeries(s, nth, algorithms.length === 1 && s.base !== 'queue');
    }
    // Two of one panel never share both marker and style; where they would, the better known one keeps its marker.
    const data = panel.series.filter(isData);
    const isKnown = (s) => Number(Object.hasOwn(ALGORITHMS, s.base.toLowerCase()));
    for (const s of [...data].sort((a, b) => isKnown(b) - isKnown(a))) {
      const place = () => `${s.style} ${s.marker}`;
      for (let tries = 0; taken.has(place()) && tries < MARKERS.length; tries++) s.marker = MARKERS[(MARKERS.indexOf(s.marker) + 1) % MARKERS.length];
      taken.add(place());
    }
  }
}

function colorSeries(s, nth, alone) {
  const [hue, dash, marker] = styleOf(s.base);
  s.marker = marker;
  // A member of a family leans towards the ink, so that it differs from the head in more than its dash.
  let pair = dash ? HUES[hue].map((hex, theme) => mixed(hex, ['#000000', '#ffffff'][theme], 0.2 + 0.15 * (dash % 2))) : HUES[hue];
  s.dash = s.xs.length <= DASHED_MAX ? DASHES[dash] : [];
  if (nth > 0 && alone) {
    const others = CYCLE.filter((name) => name !== hue);
    pair = HUES[others[(nth - 1) % others.length]];
  } else if (nth > 0) {
    const share = [0, 0.38, 0.3, 0.58, 0.5][nth % 5];
    const toward = nth % 2 ? ['#ffffff', '#ffffff'] : ['#000000', '#101418'];
    pair = pair.map((hex, theme) => mixed(hex, toward[theme], share));
    s.dash = s.xs.length <= DASHED_MAX ? DASHES[nth % DASHES.length] : [];
  }
  if (s.style === 'dashed' && s.xs.length <= DASHED_MAX) s.dash = [6, 4];
  // A dense line beside its head is pale instead of dashed.
  if (s.style === 'dashed' && s.xs.length > DASHED_MAX) pair = pair.map((hex, theme) => mixed(hex, ['#ffffff', '#12171d'][theme], 0.4));
  s.isHollow = s.style === 'points' || s.style === 'dashed';
  s.color = () => pair[isDark() ? 1 : 0];
}

/** The colour of an algorithm outside of any figure. */
function keyColor(key) {
  return HUES[styleOf(baseOf(key))[0]][isDark() ? 1 : 0];
}

/** A state's short name, pattern, fill and ink. In the dark all fills are dimmed, and pale ones turn to dark ones. */
function stateLook(name) {
  const words = name.replace(/_/g, ' ');
  const other = [words.charAt(0).toUpperCase() + words.slice(1), OTHER_STATES[numberOf(name) % OTHER_STATES.length], 'plain'];
  const [label, light, pattern] = Object.hasOwn(STATES, name) ? STATES[name] : other;
  if (!isDark()) return { label, pattern, fill: light, ink: '#14181f' };
  const pale = Math.min(...rgb(light)) > 190;
  return { label, pattern, fill: mixed(light, '#12171d', pale ? 0.7 : 0.16), ink: pale ? '#e7ecf1' : '#0c1015' };
}

