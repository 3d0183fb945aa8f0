// Builds the playground: out/web. Usage: node build.mjs MODULE.wasm CASES.json OUT
// SPDX-License-Identifier: Apache-2.0 OR MIT
import { build } from 'esbuild';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = dirname(fileURLToPath(import.meta.url));
const [wasm, cases, out] = process.argv.slice(2);
const report = join(here, '../crates/report/src/assets');
/** Bytes over the wire at most. */
const WIRE_MAX = 1_500_000;

mkdirSync(out, { recursive: true });
// uPlot and the palette are those of the report's pages, as plain scripts in front of ours.
const before = ['vendor/uplot/uPlot.iife.min.js', 'palette.js'].map((name) => readFileSync(join(report, name), 'utf8')).join('\n');
const common = { bundle: true, minify: true, format: 'iife', target: 'es2022', legalComments: 'none', logLevel: 'warning' };
await build({ ...common, entryPoints: [join(here, 'src/main.ts')], outfile: join(out, 'app.js'), banner: { js: before }, define: { DRAFT_CASES: readFileSync(cases, 'utf8') } });
await build({ ...common, entryPoints: [join(here, 'src/worker.ts')], outfile: join(out, 'worker.js') });
const css = readFileSync(join(report, 'vendor/uplot/uPlot.min.css'), 'utf8') + readFileSync(join(here, 'src/style.css'), 'utf8');
writeFileSync(join(out, 'style.css'), css);
for (const name of ['index.html', 'icon.svg']) copyFileSync(join(here, 'src', name), join(out, name));
copyFileSync(wasm, join(out, 'bbrlab.wasm'));

let wire = 0;
for (const name of readdirSync(out).filter((name) => !name.endsWith('.gz')).sort()) {
  const packed = gzipSync(readFileSync(join(out, name)), { level: 9 });
  const file = join(out, `${name}.gz`);
  // An equal file keeps its time: the command that contains it is not built again.
  if (!existsSync(file) || !readFileSync(file).equals(packed)) writeFileSync(file, packed);
  wire += packed.length;
  console.log(`${name.padEnd(14)} ${String(statSync(join(out, name)).size).padStart(9)} bytes, ${String(packed.length).padStart(8)} packed`);
}
console.log(`web: ${wire} bytes over the wire, at most ${WIRE_MAX}`);
if (wire > WIRE_MAX) process.exit(1);
