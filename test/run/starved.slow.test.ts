import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { describeOn } from '../support/stores.js';

const ROWS = 40;
/** Half of the first rows: the server leaves the connection of each alone. */
const isStarved = (row: number): boolean => row <= 30 && row % 4 < 2;

const place = scriptedPlace();

describeOn('embedded', 'a server that starves some connections', (store) => {
  it('gets fewer calls at once, the log says so, and every row is answered', async () => {
    const { work, service } = place;
    place.script = ({ prompt, count }) => (isStarved(Number(prompt)) && count === 1 ? 'hang' : {});
    const lines = Array.from({ length: ROWS }, (_, i) => JSON.stringify({ prompt: `${i + 1}` }));
    const path = work.job({
      service: { deployment: 'm', style: 'openai' },
      input: { path: work.write('in.jsonl', `${lines.join('\n')}\n`) },
      prompt: '{{ prompt }}',
      output: { path: 'out.jsonl' },
      // So long that a machine that stands still for two seconds loses no other call.
      limits: { concurrency: 20, timeout_seconds: 6 },
    });
    const { code, stderr } = await work.call(['run', path], {
      PROMPTMILL_BASE_URL: service.url,
      ...store().env,
    });
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/calls time out while others are answered in \d+ ms; at most 10 at once for now/);
    const ends = work.lines('out.jsonl').map(({ status, attempts }) => `${status} ${attempts}`);
    expect(ends).toEqual(
      Array.from({ length: ROWS }, (_, i) => (isStarved(i + 1) ? 'completed 2' : 'completed 1')),
    );
  });
});
