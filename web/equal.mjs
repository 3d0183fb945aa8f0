// Result documents of the module beside the command's: the same bytes but for `wall_s`. Random scenarios of a fixed seed.
// Usage: node equal.mjs MODULE.wasm COMMAND [--strict]     `--strict` holds the module's time to its limit
// SPDX-License-Identifier: Apache-2.0 OR MIT
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const [file, command, strict] = process.argv.slice(2);
const RUNS = 50;
/** Time of the module over that of the command, both in this run. */
const RATIO_MAX = strict === '--strict' ? 2.5 : Infinity;
const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
const wasm = instance.exports;

function call(request) {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const at = wasm.web_reserve(bytes.length);
  new Uint8Array(wasm.memory.buffer, at, bytes.length).set(bytes);
  const length = wasm.web_call();
  return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.web_reply(), length));
}

let seed = 1;
/** A number below `n`, of a linear congruential generator (Numerical Recipes). */
const below = (n) => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return Math.floor((seed / 2 ** 32) * n); };
const one = (list) => list[below(list.length)];

const algorithms = JSON.parse(call({ op: 'tables' })).algorithms.map(({ name }) => name);

function scenario(index) {
  const keys = [
    ['rate', `${one([1, 2, 5, 10, 20, 50, 100])}mbit`], ['rtt', `${one([1, 5, 10, 20, 40, 80, 150])}ms`], ['buffer', one(['20p', '0.5bdp', '1bdp', '4bdp', '64KiB', '100ms'])],
    ['duration', `${3 + below(8)}s`], ['seed', String(index + 1)],
  ];
  const may = (key, values) => { if (below(4) === 0) keys.push([key, one(values)]); };
  may('loss', ['0.1%', '1%', 'ge:0.1%,20%']);
  may('ack_loss', ['1%', '10%']);
  may('jitter', ['1ms', '5ms', '2ms:reorder']);
  may('reorder', ['0.5%']);
  may('duplicate', ['0.5%']);
  may('aqm', ['codel', 'fq_codel', 'cake', 'pie', 'red']);
  may('ack_aggregation', ['5ms', '20ms', '64KiB']);
  may('policer', ['rate=5mbit,burst=50kB']);
  may('schedule', ['1s:rate=4mbit;2.5s:rate=30mbit', '1.234567s:rtt=70ms', '1s:buffer=30p,loss=1%']);
  may('warmup', ['1s']);
  const flows = Array.from({ length: 1 + below(3) }, () => one(algorithms) + one(['', '', '@500ms', '*2', ',rtt=30ms', ',ecn=on', ',size=2MB']));
  return { keys, flows };
}

let [native_ms, wasm_ms, different] = [0, 0, 0];
const without = (text) => text.replace(/"wall_s": [^,\n]*/, '"wall_s": 0.0');
for (let index = 0; index < RUNS; index++) {
  const given = scenario(index);
  const flags = [...given.keys.flatMap(([key, value]) => [`--${key.replace(/_/g, '-')}`, value]), ...given.flows.flatMap((flow) => ['--flow', flow])];
  let expected;
  try {
    expected = execFileSync(command, ['run', ...flags, '--json', '-'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    // Expectations fail a command, but a scenario that is refused has no document.
    if (!error.stdout) {
      const reply = call({ op: 'check', given });
      const line = String(error.stderr).trim().replace(/^bbrlab: /, '');
      if (JSON.parse(reply).error !== line) { different++; console.log(`refused differently:\n  ${line}\n  ${reply}`); }
      continue;
    }
    expected = error.stdout;
  }
  native_ms += 1000 * Number(/"wall_s": ([^,\n]*)/.exec(expected)?.[1] ?? 0);
  const from = performance.now();
  call({ op: 'create', run: 0, given, ahead: true, hand: null });
  const found = call({ op: 'finish', run: 0 });
  wasm_ms += performance.now() - from;
  if (without(found) !== without(expected)) {
    different++;
    const [a, b] = [without(found).split('\n'), without(expected).split('\n')];
    const line = a.findIndex((text, place) => text !== b[place]);
    console.log(`bbrlab run ${flags.join(' ')}\n  line ${line + 1}: ${a[line]} instead of ${b[line]}`);
  }
}
const ratio = wasm_ms / native_ms;
console.log(`equal: ${RUNS} scenarios, ${different} different; module ${wasm_ms.toFixed(0)} ms, command ${native_ms.toFixed(0)} ms of simulation, ratio ${ratio.toFixed(2)}${strict ? `, at most ${RATIO_MAX}` : ''}`);
process.exit(different || ratio > RATIO_MAX ? 1 : 0);
