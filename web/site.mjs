// Builds the static site: landing page, playground, and the documentation as pages. Every link and anchor within it is checked.
// Usage: node site.mjs WEB OUT
// SPDX-License-Identifier: Apache-2.0 OR MIT
import { build } from 'esbuild';
import MarkdownIt from 'markdown-it';
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..');
const [web, out] = process.argv.slice(2);
const SOURCE = 'https://github.com/bbrlab/bbrlab/blob/main/';

const tracked = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' }).split('\n').filter((path) => path && existsSync(join(root, path)));
const pages = tracked.filter((path) => path.endsWith('.md') && !path.startsWith('bpf/') && !path.startsWith('fuzz/') && !path.startsWith('.'));
const isPage = new Set(pages);
const page_of = (path) => path.replace(/\.md$/, '.html');

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
  if (/\.(svg|png)$/.test(target)) {
    mkdirSync(dirname(join(out, 'read', target)), { recursive: true });
    copyFileSync(join(root, target), join(out, 'read', target));
    return up + target;
  }
  return SOURCE + target + suffix;
}

function render(path) {
  const tokens = md.parse(readFileSync(join(root, path), 'utf8'), {});
  const slug = slugger();
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

const escape = (text) => text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);

function shell(title, up, main, kind) {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<link rel="icon" href="${up}play/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${up}site.css">
</head>
<body class="${kind}">
<header><a class="brand" href="${up}index.html">bbrlab</a><nav aria-label="Site"><a href="${up}play/index.html">Play</a><a href="${up}play/index.html#view=learn">Learn</a><a href="${up}read/docs/README.html">Read</a><a href="https://github.com/bbrlab/bbrlab">Source</a></nav></header>
${main}
</body>
</html>
`;
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
cpSync(web, join(out, 'play'), { recursive: true, filter: (path) => !path.endsWith('.gz') });
for (const path of pages) {
  const { title, body } = render(path);
  const file = join(out, 'read', page_of(path));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, shell(title, '../'.repeat(path.split('/').length), `<main>\n${body}</main>`, 'page'));
}
writeFileSync(join(out, 'index.html'), shell('bbrlab', '', readFileSync(join(here, 'src/landing.html'), 'utf8'), 'landing'));
copyFileSync(join(here, 'src/site.css'), join(out, 'site.css'));
const palette = readFileSync(join(root, 'crates/report/src/assets/palette.js'), 'utf8');
await build({ entryPoints: [join(here, 'src/landing.ts')], outfile: join(out, 'landing.js'), bundle: true, minify: true, format: 'iife', target: 'es2022', banner: { js: palette }, logLevel: 'warning' });

/** Every HTML file of the site, with its anchors. */
function files(dir, prefix = '') {
  return readdirSync(dir).flatMap((name) => (statSync(join(dir, name)).isDirectory() ? files(join(dir, name), `${prefix}${name}/`) : [`${prefix}${name}`]));
}

const all = new Set(files(out));
const anchors = new Map([...all].filter((file) => file.endsWith('.html')).map((file) => [file, new Set([...readFileSync(join(out, file), 'utf8').matchAll(/ (?:id|name)="([^"]+)"/g)].map(([, id]) => id))]));
let [links, broken] = [0, 0];
for (const file of anchors.keys()) {
  for (const [, href] of readFileSync(join(out, file), 'utf8').matchAll(/ (?:href|src)="([^"]+)"/g)) {
    if (/^(https?:|mailto:|data:)/.test(href)) continue;
    links++;
    const [path, anchor] = href.replace(/&amp;/g, '&').split('#');
    const target = path ? posix.normalize(posix.join(posix.dirname(file), decodeURIComponent(path))) : file;
    const isState = target === 'play/index.html' && anchor?.includes('=');
    if (!all.has(target) || (anchor && !isState && !anchors.get(target)?.has(decodeURIComponent(anchor)))) {
      broken++;
      console.log(`${file}: ${href} leads nowhere`);
    }
  }
}
console.log(`site: ${anchors.size} pages, ${links} links within, ${broken} lead nowhere`);
process.exit(broken ? 1 : 0);
