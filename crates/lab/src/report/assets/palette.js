// Colours: one an algorithm in every figure, told apart by the colour-blind, in light and in dark.
// SPDX-License-Identifier: Apache-2.0 OR MIT

// After Okabe and Ito (2008), darkened or lightened until each has a contrast of 3 to its page and the first eight
// stay apart under protanopia and deuteranopia (Machado et al. 2009).
const HUES = {
  blue: ['#00568f', '#4f9fe8'], orange: ['#c04a00', '#ff8638'], green: ['#009a72', '#35cfa0'],
  purple: ['#c35a9e', '#f0a3d4'], amber: ['#b58a00', '#f2cc3a'], sky: ['#3f9ad6', '#a5e3ff'],
  grey: ['#454d57', '#9aa5b0'], brown: ['#6a3a16', '#b98457'], olive: ['#5d6600', '#c9d46a'], rose: ['#a3152f', '#ff6f7c'],
};
const CYCLE = ['blue', 'orange', 'green', 'purple', 'amber', 'sky', 'brown', 'grey', 'rose', 'olive'];
const DASHES = [[], [9, 3], [2, 3], [9, 3, 2, 3], [5, 3], [14, 4]];
/** Up to how many values a flow's line is dashed to tell it from its siblings. */
const DASHED_MAX = 400;

// Hue and dash of each algorithm: a family shares a hue, its members differ in dash.
const ALGORITHMS = {
  'bbr1': ['blue', 0], 'bbr': ['blue', 0], 'bbr1-draft00': ['blue', 1],
  'cubic': ['orange', 0], 'reno': ['grey', 0],
  'bbr2': ['green', 0], 'bbr2-ietf100': ['green', 1],
  'bbr3': ['purple', 0], 'bbr3-draft06': ['purple', 0], 'bbr3-linux': ['purple', 1],
  'bbr-cpa': ['amber', 0], 'bbr-s': ['sky', 0], 'bbr-s-p85': ['sky', 1], 'bbr-s-kalman': ['sky', 2],
  'bbr-acd': ['brown', 0], 'acd-linux': ['brown', 0], 'acd-ns3': ['brown', 1], 'acd-once': ['brown', 2],
  'bbr-apg': ['olive', 4], 'davis': ['rose', 5], 'queue': ['grey', 0],
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

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
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

/** Hue and dash of a colour key without its flow number. */
function styleOf(base) {
  const known = ALGORITHMS[base] || ALGORITHMS[base.toLowerCase()];
  return known || [CYCLE[numberOf(base) % CYCLE.length], 0];
}

/**
 * Gives each series of a figure `color()` and `dash`. One algorithm has one hue. Several flows of one algorithm get shades
 * and dashes of it; where the figure holds one algorithm only, each flow gets a hue of its own, the first the algorithm's.
 */
function paint(panels) {
  const flowsOf = new Map();
  for (const panel of panels) {
    const met = new Map();
    for (const s of panel.series.filter((s) => s.style !== 'reference')) {
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
  for (const s of panels.flatMap((panel) => panel.series)) {
    if (s.style === 'reference') {
      s.color = () => cssColor('--soft');
      s.dash = [4, 4];
      continue;
    }
    const nth = flowsOf.get(s.base).get(s.flow);
    colorSeries(s, nth, algorithms.length === 1 && s.base !== 'queue');
  }
}

function colorSeries(s, nth, alone) {
  const [hue, dash] = styleOf(s.base);
  // A member of a family leans towards the ink, so that it differs from the head in more than its dash.
  let pair = dash ? HUES[hue].map((hex, theme) => mixed(hex, ['#000000', '#ffffff'][theme], 0.2 + 0.15 * (dash % 2))) : HUES[hue];
  s.dash = DASHES[dash];
  if (nth > 0 && alone) {
    const others = CYCLE.filter((name) => name !== hue);
    pair = HUES[others[(nth - 1) % others.length]];
  } else if (nth > 0) {
    const share = [0, 0.38, 0.3, 0.58, 0.5][nth % 5];
    const toward = nth % 2 ? ['#ffffff', '#ffffff'] : ['#000000', '#101418'];
    pair = pair.map((hex, theme) => mixed(hex, toward[theme], share));
    // Dashes help where lines are smooth; on dense ones they only add noise.
    s.dash = s.xs.length <= DASHED_MAX ? DASHES[nth % DASHES.length] : [];
  }
  if (s.style === 'dashed') s.dash = [6, 4];
  s.color = () => pair[isDark() ? 1 : 0];
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

