import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { type SlotServerOptions, slotServer } from '../support/slot-server.js';

const place = scriptedPlace();

it.each<[string, SlotServerOptions, concurrency: number, rows: number, operation?: 'chat']>([
  ['20 calls on one slot', { slots: 1, ms: 300 }, 20, 60],
  ['64 calls on two slots', { slots: 2, ms: 150 }, 64, 200, 'chat'],
  [
    '64 calls on two slots that go on with calls that were cut',
    { slots: 2, ms: 150, worksOnCutCalls: true },
    64,
    200,
  ],
])(
  'fault 112: %s, and a time-out that is shorter than its line: the calls at once come down, and the log says so',
  async (_, options, concurrency, rows, operation) => {
    const { work, service } = place;
    const server = slotServer(options);
    place.script = server.script;
    const path = work.job({
      service: { deployment: 'm', style: 'openai', operation },
      input: { path: work.rows(rows) },
      output: { path: 'out.jsonl' },
      limits: { concurrency, timeout_seconds: 3 },
    });
    const { code, stderr } = await work.run(['run', path], { PROMPTMILL_BASE_URL: service.url });
    expect(code, stderr).toBe(0);
    expect(work.lines('out.jsonl').map(({ status }) => status)).toEqual(Array(rows).fill('completed'));
    expect(stderr).toMatch(
      /calls time out while others are answered only after[^"]* at most \d+ at once for now.*limits\.timeout_seconds/,
    );
    const { counts, underWay } = server;
    expect(work.json('out.summary.json')).toMatchObject({ calls: { sent: counts.calls } });
    // How many are cut, and when more are tried again, depends on how busy this machine is; test/pace/late-calls.test.ts
    // counts that on a clock of its own.
    const later = underWay.slice(underWay.indexOf(Math.max(...underWay)));
    const few = later.filter((calls) => calls <= concurrency / 2);
    expect(few.length, `${underWay}`).toBeGreaterThanOrEqual(concurrency / 2);
  },
);

it('fault 20: a server that shuts down and holds its connections open is told of before its calls time out', async () => {
  const { work, service } = place;
  let goOn = (): void => {};
  const back = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  place.script = async ({ total }) => {
    if (total > 5) await back;
    return {};
  };
  const limits = { concurrency: 8, timeout_seconds: 60, chunk_size: 5 };
  const path = work.job({ input: { path: work.rows(40) }, output: { path: 'out.jsonl' }, limits });
  const run = work.start(['run', path], { PROMPTMILL_BASE_URL: service.url });
  const told = new Promise<string>((resolve) => {
    let said = '';
    run.process.stderr?.on('data', (text: string) => {
      said += text;
      const [line] = /no answer since [^)]*\)/.exec(said) ?? [];
      if (line !== undefined) resolve(line);
    });
  });
  expect(await Promise.race([told, run.ended])).toMatch(
    /^no answer since \d\d:\d\d:\d\d: waiting for the service with 8 calls in flight, time-out after 60 s \(limits\.timeout_seconds\)$/,
  );
  goOn();
  const { code, stderr } = await run.ended;
  expect(code, stderr).toBe(0);
  expect(service.calls()).toBe(40);
});
