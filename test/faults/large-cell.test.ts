import { afterAll, expect, it } from 'vitest';
import { Workplace } from '../support/promptmill.js';
import { type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';
import './figures.js';

const CELL = 'ü "x", \n'.repeat(1_100_000);

describeOn('embedded', 'a cell of 10 MB', (store) => {
  const work = new Workplace();
  let service: ScriptedService;
  afterAll(async () => {
    await service.close();
    work.remove();
  });

  it('fault 7: fails by the context window or goes out whole, in bounded memory', async ({ task }) => {
    service = await startScriptedService();
    const env = {
      PROMPTMILL_BASE_URL: service.url,
      ...store().env,
      // Some fifty times the cell. A prompt of this size is copied at every step between two processes.
      NODE_OPTIONS: '--max-old-space-size=512',
    };
    const input = work.write('large.csv', `id,note\n1,a\n2,"${CELL.replaceAll('"', '""')}"\n3,b\n`);
    const job = { input: { path: input }, prompt: '{{ note }}' };
    const records = (name: string) => work.lines(name);

    const refused = await work.run(['run', work.job({ ...job, output: { path: 'window.jsonl' } })], env);
    expect(refused.code, refused.stderr).toBe(1);
    expect(records('window.jsonl').map(({ row, status, error }) => [row, status, error?.code])).toEqual([
      [1, 'completed', undefined],
      [2, 'failed', 'context_length_exceeded'],
      [3, 'completed', undefined],
    ]);
    expect(service.requests.length).toBe(2);

    // A deployment whose window is not known: the service decides.
    const own = { ...job, service: { deployment: 'one-of-our-own' }, output: { path: 'whole.jsonl' } };
    const sent = await work.run(['run', work.job(own)], env);
    expect(sent.code, sent.stderr).toBe(0);
    expect(service.calls(CELL)).toBe(1);
    // Not toEqual: nobody wants to read the difference.
    expect(records('whole.jsonl')[1].input.note === CELL).toBe(true);
    task.meta.fault = { rows: 6, calls: service.requests.length };
  });
});
