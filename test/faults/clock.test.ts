import { expect, it, onTestFinished } from 'vitest';
import { completionBody } from '../support/scripted-service.js';
import { describeEachStore } from '../support/stores.js';
import { Trial } from '../support/trial.js';

const HOUR = 3_600_000;
const ROWS = 300;

/** Node runs it before Promptmill: at a signal the clock of the machine is set. */
const setBy = (ms: number): string => `
const { now } = Date;
let shift = 0;
Date.now = () => now.call(Date) + shift;
globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length === 0 ? [Date.now()] : args));
  }
};
process.on('SIGUSR2', () => {
  shift = ${ms};
  process.stderr.write('the clock was set\\n');
});
`;

describeEachStore('a clock that is set in the middle of a run', (store) => {
  it.for([
    ['back by an hour', -HOUR],
    ['forward by a day', 24 * HOUR],
  ] as const)('fault 90: %s keeps no row waiting, and no figure gets odd', async ([, ms], { task }) => {
    const { target, stateDir } = store();
    const failed = new Set<string>();
    let refused = false;
    // Every tenth row comes back after a pause, and everybody pauses once.
    const trial = await Trial.begin({
      queue: target,
      stateDir,
      rows: ROWS,
      latencyMs: 20,
      script: ({ prompt, total }) => {
        if (total > 60 && !refused) {
          refused = true;
          return {
            status: 429,
            headers: { 'retry-after': '4' },
            json: { error: { code: '429', message: 'wait' } },
          };
        }
        if (prompt.endsWith('0') && !failed.has(prompt)) {
          failed.add(prompt);
          return { status: 500, json: { error: { message: 'again' } } };
        }
        return { json: completionBody({ text: ` re ${prompt}` }) };
      },
    });
    onTestFinished(() => trial.end());
    trial.work.write('set.mjs', setBy(ms));
    const running = trial.runWith({ NODE_OPTIONS: `--import=${trial.work.path('set.mjs')}` });
    await running.until(trial.called(62));
    running.process.kill('SIGUSR2');
    await running.says(/the clock was set/);
    trial.endFault();
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);

    const records = trial.work.records('out.csv');
    expect(records.map(({ id, answer }) => `${id} ${answer}`)).toEqual(
      Array.from({ length: ROWS }, (_, i) => `${i + 1} re row ${i + 1}`),
    );
    const summary = JSON.parse(trial.work.read('out.summary.json'));
    Object.assign(task.meta, {
      fault: { rows: ROWS, calls: trial.service.calls(), repeated: summary.calls.repeated },
    });
    expect(trial.callsOfRows().every((calls) => calls <= 3)).toBe(true);
    expect(summary.duration_s).toBeGreaterThan(0);
    expect(summary.duration_s).toBeLessThan(600);
    for (const { latency_ms } of records) {
      expect(Number(latency_ms)).toBeGreaterThanOrEqual(0);
      expect(Number(latency_ms)).toBeLessThan(60_000);
    }
    expect(stderr).not.toMatch(/stopped|gave up|attempts/i);
  });
});
