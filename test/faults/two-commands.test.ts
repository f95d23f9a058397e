import { appendFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';

const place = scriptedPlace();
const store = oneStore();
const env = () => ({ PROMPTMILL_BASE_URL: place.service.url, ...store() });

const COMMANDS = {
  retry: ['retry', 'out.csv', '--row', '2'],
  extend: ['run', 'job.yaml', '--extend'],
  'merge-review': ['merge-review', 'out.csv', 'review.csv'],
} as const;

describe('two commands on one output', () => {
  /** Answers no call until it is told to. */
  let held: Promise<void> | null = null;
  let onCall = (): void => {};

  beforeEach(async () => {
    held = null;
    place.script = async () => {
      onCall();
      await held;
      return { json: completionBody({ text: ' good' }) };
    };
    place.work.job({
      input: { path: place.work.rows(4) },
      answer: { labels: ['good', 'bad'] },
      output: { path: 'out.csv' },
    });
    place.work.write('review.csv', 'row,answer\n1,bad\n');
    expect((await place.work.call(['run', 'job.yaml'], env())).code).toBe(0);
  });

  it.each([
    ['retry', 'promptmill retry out.csv --row 2'],
    ['extend', 'promptmill run JOB'],
  ] as const)(
    'fault 94: while %s runs, and after it was killed, the others change nothing; then all of them follow',
    async (first, goesOn) => {
      let release = (): void => {};
      held = new Promise((resolve) => {
        release = resolve;
      });
      const called = new Promise<void>((resolve) => {
        onCall = resolve;
      });
      if (first === 'extend') appendFileSync(place.work.path('rows.csv'), '5,row 5\n');
      const before = place.work.read('out.csv');
      const running = place.work.start(COMMANDS[first], env());
      await called;
      const others = Object.entries(COMMANDS).filter(([name]) => name !== first);
      for (const [name, args] of Object.entries(COMMANDS)) {
        const { code, stderr } = await place.work.call(args, env());
        expect([code, stderr], name).toEqual([2, expect.stringContaining(`process ${running.process.pid}`)]);
      }
      running.process.kill('SIGKILL');
      await running.ended;
      release();
      for (const [name, args] of others) {
        if (first === 'extend' && name === 'extend') continue;
        const { code, stderr } = await place.work.call(args, env());
        expect([code, stderr], name).toEqual([2, expect.stringContaining(goesOn)]);
      }
      expect(place.work.read('out.csv')).toBe(before);
      for (const args of [COMMANDS[first], ...others.map(([, each]) => each)]) {
        const { code, stderr } = await place.work.call(args, env());
        expect(code, stderr).toBe(0);
      }
      expect(place.work.records('out.csv').map(({ answer }) => answer)).toEqual([
        'bad',
        ...Array.from({ length: first === 'extend' ? 4 : 3 }, () => 'good'),
      ]);
    },
  );
});
