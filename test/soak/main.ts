import { parseArgs } from 'node:util';
import { soak } from './soak.js';
import { STORES } from './stage.js';

/**
 * One run of many rows against the emulator, with a fault every few seconds: of the service, the store, a worker, the
 * producer, the disk, the clock, in turn. At the end every promise of docs/guarantees.md is looked at. Exit code 1 when one
 * was broken.
 *
 *   npm run test:soak -- [--rows 1000000] [--minutes 20] [--store redis|embedded] [--every 5] [--faults 100] [--seed 1]
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    minutes: { type: 'string', default: '20' },
    store: { type: 'string', default: 'redis' },
    every: { type: 'string', default: '5' },
    faults: { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  },
});

const store = STORES.find((each) => each === values.store);
if (store === undefined) throw new Error(`--store is one of ${STORES.join(', ')}`);
const number = (name: 'rows' | 'minutes' | 'every' | 'faults' | 'seed'): number => Number(values[name]);
const [rows, every, seed] = [number('rows'), number('every'), number('seed')];
console.log(`${rows} rows on ${store}, a fault every ${every} s, --seed ${seed}`);
const soaked = await soak({
  ...{ rows, store, every, seed, minutes: number('minutes'), faults: number('faults') },
  looksAtStore: true,
  say: (line) => console.log(line),
});

const kinds = Object.entries(soaked.faults).map(([kind, count]) => `${count} ${kind}`);
console.log(
  `\n${soaked.rows} of ${rows} rows in ${soaked.minutes.toFixed(1)} minutes, ${soaked.calls} calls, ${soaked.repeated} repeated; faults: ${kinds.join(', ')}\n`,
);
for (const { promise, broken, seen } of soaked.promises) {
  console.log(`${broken.length > 0 ? 'BROKEN' : 'kept  '}  ${promise.padEnd(46)}  ${seen}`);
  for (const line of broken) console.log(`        ${line}`);
}
process.exitCode = soaked.promises.some(({ broken }) => broken.length > 0) ? 1 : 0;
