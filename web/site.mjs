// Builds the static site: landing page, playground, documentation, notebooks, the page of the published claims, and the references
// of Rust and Python. Every link and anchor within it is checked.
// Usage: node site.mjs WEB REPORT.html RUSTDOC PYTHON OUT     PYTHON has `api`, and `notebooks` that were run
// SPDX-License-Identifier: Apache-2.0 OR MIT
import { build } from 'esbuild';
import MarkdownIt from 'markdown-it';
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { notebook } from './notebook.mjs';
import { POLICY, withPolicy } from './policy.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..');
const [web, report, rustdoc, python, out] = process.argv.slice(2);
const SOURCE = 'https://github.com/bbrlab/bbrlab/blob/main/';

const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).split('\n').filter((path) => path && existsSync(join(root, path)));
const pages = tracked.filter((path) => path.endsWith('.md') && !path.startsWith('bpf/') && !path.startsWith('fuzz/') && !path.startsWith('.'));
const notebooks = tracked.filter((path) => path.endsWith('.ipynb'));
const isPage = new Set([...pages, ...notebooks]);
const page_of = (path) => path.replace(/\.(md|ipynb)$/, '.html');
/** Files of the site that are no pages of ours, by their paths in the repository. */
const COPIED = new Map([['CITATION.cff', 'CITATION.cff']]);

const md = new MarkdownIt({ html: true });

/** Anchor of a heading, as GitHub makes it. */
function slugger() {
  const seen = new Map();
  return (text) => {
    const slug = text.toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, '').replace(/ /g, '-');
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    return times ? `${slug}-${times}` : slug;
  };
}

/** A link of a page, as one of the site: a page, a copied picture, or the source of anything else. */
function linked(from, href) {
  if (/^([a-z]+:|#)/i.test(href)) return href;
  const [path, anchor] = href.split('#');
  const target = posix.normalize(posix.join(posix.dirname(from), decodeURIComponent(path))).replace(/\/$/, '');
  const suffix = anchor ? `#${anchor}` : '';
  const up = '../'.repeat(from.split('/').length - 1);
  const readme = `${target}/README.md`;
  const page = isPage.has(target) ? target : isPage.has(readme) ? readme : null;
  if (page) return `${up}${page_of(page)}${suffix}`;
  if (COPIED.has(target)) return `../${up}${COPIED.get(target)}`;
  if (/\.(svg|png)$/.test(target)) {
    mkdirSync(dirname(join(out, 'read', target)), { recursive: true });
    copyFileSync(join(root, target), join(out, 'read', target));
    return up + target;
  }
  return SOURCE + target + suffix;
}

/** Markdown as HTML, with its first heading. */
function render(text, path, slug = slugger()) {
  const tokens = md.parse(text, {});
  let title = path;
  const visit = (token, index, all) => {
    if (token.type === 'heading_open') {
      const text = all[index + 1].children.filter(({ type }) => type === 'text' || type === 'code_inline').map(({ content }) => content).join('');
      token.attrSet('id', slug(text));
      if (token.tag === 'h1' && title === path) title = text;
    }
    if (token.type === 'link_open') token.attrSet('href', linked(path, token.attrGet('href')));
    if (token.type === 'image') token.attrSet('src', linked(path, token.attrGet('src')));
    if (token.type === 'table_open') {
      token.attrJoin('class', 'wide');
      token.attrSet('tabindex', '0');
    }
    token.children?.forEach((child, place) => visit(child, place, token.children));
  };
  tokens.forEach(visit);
  // What scrolls sideways can be reached by the keyboard.
  const html = md.renderer.render(tokens, md.options, {}).replaceAll('<pre>', '<pre tabindex="0">');
  return { title, body: html.replace(/<img ([^>]*)src="(?!https?:|\.\.|data:)([^"]*)"/g, (_, rest, src) => `<img ${rest}src="${linked(path, src)}"`) };
}

const MORE = [
  ['claims.html', 'The published claims'], ['read/docs/peers.html', 'Peers'], ['read/docs/draft-notes.html', 'Notes on the draft'], ['api/rust/index.html', 'Rust'],
  ['api/python/bbrlab.html', 'Python'], ['read/docs/python.html#notebooks', 'Notebooks'], ['CITATION.cff', 'Cite'],
];

const escape = (text) => text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);

function shell(title, up, main, kind) {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
${POLICY}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<link rel="icon" href="${up}play/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${up}site.css">
</head>
<body class="${kind}">
<header><a class="brand" href="${up}index.html">bbrlab</a><nav aria-label="Site"><a href="${up}play/index.html">Play</a><a href="${up}play/index.html#view=learn">Learn</a><a href="${up}read/docs/README.html">Read</a><a href="${up}search.html">Search</a><a href="https://github.com/bbrlab/bbrlab">Source</a></nav></header>
${main}
<footer><nav aria-label="More">${MORE.map(([href, name]) => `<a href="${up}${href}">${name}</a>`).join('')}</nav></footer>
</body>
</html>
`;
}

function writePage(path, title, body) {
  const file = join(out, 'read', page_of(path));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, shell(title, '../'.repeat(path.split('/').length), `<main>\n${body}</main>`, 'page'));
}

/** Sections of a page for the search: their addresses, titles and plain text. */
function sections(title, body, url) {
  return body.split(/(?=<h[12] id=")/).map((part) => {
    const [, id = '', heading = title] = /^<h[12] id="([^"]*)">([\s\S]*?)<\/h[12]>/.exec(part) ?? [];
    const [head, text] = [heading, part.replace(/^<h[12][\s\S]*?<\/h[12]>/, '')].map((html) => plain(html));
    return { url: id ? `${url}#${id}` : url, title: head === title ? title : `${title}: ${head}`, text };
  }).filter(({ text }) => text);
}

const MARKS = { lt: '<', gt: '>', quot: '"', amp: '&' };
const plain = (html) => html.replace(/<[^>]*>/g, ' ').replace(/&(lt|gt|quot|amp);/g, (_, name) => MARKS[name]).replace(/\s+/g, ' ').trim();

/** A report of the command as a page of the site: its figures lead to the site's own playground. */
function reportPage(html, up) {
  const own = html.replaceAll(/<a href="http:\/\/127\.0\.0\.1:\d+\/#/g, `<a target="_top" href="${up}play/index.html#`);
  return withPolicy(own.replaceAll(' while <code>bbrlab play</code> runs on this machine', ''));
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
cpSync(web, join(out, 'play'), { recursive: true, filter: (path) => !path.endsWith('.gz') });
const found = [];
for (const path of pages) {
  const { title, body } = render(readFileSync(join(root, path), 'utf8'), path);
  writePage(path, title, body);
  // The issues for other projects repeat the notes.
  if (!path.startsWith('docs/upstream/')) found.push(...sections(title, body, `read/${page_of(path)}`));
}
for (const path of notebooks) {
  const name = posix.basename(path, '.ipynb');
  const slug = slugger();
  let title = name;
  const prose = (text) => {
    const part = render(text, path, slug);
    if (title === name) title = part.title === path ? name : part.title;
    return part.body;
  };
  const { body, frames } = notebook(readFileSync(join(python, 'notebooks', `${name}.ipynb`), 'utf8'), name, prose);
  writePage(path, title, body);
  frames.forEach((html, index) => writeFileSync(join(out, 'read', dirname(path), `${name}-${index + 1}.html`), reportPage(html, '../'.repeat(path.split('/').length))));
}
writeFileSync(join(out, 'claims.html'), reportPage(readFileSync(report, 'utf8'), '').replace('class="brand" href="#main"', 'class="brand" href="index.html"'));
for (const [from, to] of [[rustdoc, 'api/rust'], [join(python, 'api'), 'api/python']]) {
  cpSync(from, join(out, to), { recursive: true });
  for (const file of files(join(out, to)).filter((name) => name.endsWith('.html')).map((name) => join(out, to, name))) writeFileSync(file, withPolicy(readFileSync(file, 'utf8')));
}
const CRATES = [['bbrlab_core', 'the algorithms, for any transport'], ['bbrlab_sim', 'the simulator']];
const crates = CRATES.map(([name, what]) => `<li><a href="${name}/index.html">${name}</a>: ${what}</li>\n`).join('');
writeFileSync(join(out, 'api/rust/index.html'), shell('Rust', '../../', `<main>\n<h1>Reference of the Rust crates</h1>\n<ul>\n${crates}</ul></main>`, 'page'));
for (const [from, to] of COPIED) copyFileSync(join(root, from), join(out, to));
writeFileSync(join(out, 'index.html'), shell('bbrlab', '', readFileSync(join(here, 'src/landing.html'), 'utf8'), 'landing'));
writeFileSync(join(out, 'search.html'), shell('Search', '', readFileSync(join(here, 'src/search.html'), 'utf8'), 'page'));
writeFileSync(join(out, 'search.json'), JSON.stringify(found));
copyFileSync(join(here, 'src/site.css'), join(out, 'site.css'));
const palette = readFileSync(join(root, 'crates/report/src/assets/palette.js'), 'utf8');
await build({ entryPoints: [join(here, 'src/landing.ts')], outfile: join(out, 'landing.js'), bundle: true, minify: true, format: 'iife', target: 'es2022', banner: { js: palette }, logLevel: 'warning' });
await build({ entryPoints: [join(here, 'src/search.ts')], outfile: join(out, 'search.js'), bundle: true, minify: true, format: 'iife', target: 'es2022', logLevel: 'warning' });

/** Every file below a directory. */
function files(dir, prefix = '') {
  return readdirSync(dir).flatMap((name) => (statSync(join(dir, name)).isDirectory() ? files(join(dir, name), `${prefix}${name}/`) : [`${prefix}${name}`]));
}

const all = new Set(files(out));
/** A page without the texts of its scripts. */
const page = (file) => readFileSync(join(out, file), 'utf8').replace(/(<script[^>]*>)[\s\S]*?(<\/script>)/g, '$1$2');
const anchors = new Map([...all].filter((file) => file.endsWith('.html')).map((file) => [file, new Set([...page(file).matchAll(/ (?:id|name)="([^"]+)"/g)].map(([, id]) => id))]));
/** Pages of rustdoc that lead on, with the anchor, to the place of an item. */
const moved = new Set([...anchors.keys()].filter((file) => file.startsWith('api/rust/') && page(file).includes('http-equiv="refresh"')));
let [links, broken] = [0, 0];
for (const file of anchors.keys()) {
  for (const [, href] of page(file).matchAll(/ (?:href|src)="([^"]+)"/g)) {
    if (/^(https?:|mailto:|data:|javascript:)/.test(href)) continue;
    // Lists of implementors in other crates, which rustdoc names even where there are none.
    if (href.includes('/trait.impl/')) continue;
    links++;
    const [path, anchor] = href.replace(/&amp;/g, '&').split('#');
    const target = path ? posix.normalize(posix.join(posix.dirname(file), decodeURIComponent(path))) : file;
    // A state of the playground, lines of a source, which rustdoc's script marks, or an anchor that is handed on.
    const isState = (target === 'play/index.html' && anchor?.includes('=')) || target.startsWith('api/rust/src/') || moved.has(target);
    if (!all.has(target) || (anchor && !isState && ![anchor, decodeURIComponent(anchor)].some((id) => anchors.get(target)?.has(id)))) {
      broken++;
      console.log(`${file}: ${href} leads nowhere`);
    }
  }
}
console.log(`site: ${anchors.size} pages, ${links} links within, ${broken} lead nowhere`);
process.exit(broken ? 1 : 0);
