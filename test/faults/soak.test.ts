import { expect, it } from 'vitest';
import { haveRedis } from '../support/servers.js';
import { describeMissing } from '../support/stores.js';
import { soak } from '../soak/soak.js';
import './figures.js';

/** `npm run test:soak` in small: one fault of each kind, and what every promise comes to. */
const title = 'a run with one fault after the other, on redis';
if (!haveRedis()) {
  describeMissing(title, 'redis-server or valkey-server');
} else {
  it(`${title}: faults 40, 41 and 90: every promise is kept`, async ({ task }) => {
    const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);
    console.log(`a soak, SEED=${seed}`);
    const lines: string[] = [];
    const soaked = await soak({
      // So slow that a fast machine is not through before the last fault.
      latencyMs: 200,
      ...{ rows: 2_500, minutes: 4, store: 'redis', every: 1, faults: 6, seed, looksAtStore: false },
      say: (line) => lines.push(line),
    });
    const broken = soaked.promises.filter(({ broken }) => broken.length > 0);
    expect(broken, lines.join('\n')).toEqual([]);
    expect(soaked.isFinished, lines.join('\n')).toBe(true);
    expect(Object.keys(soaked.faults).length).toBeGreaterThanOrEqual(5);
    task.meta.fault = { rows: soaked.rows, calls: soaked.calls, repeated: soaked.repeated };
  });
}
