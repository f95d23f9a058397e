import { runBeat, workerBeat } from './samples.js';

/** Posts that no version of Promptmill writes, each with the id of its place on the board (fault 85). */
export function oddBeats(): { readonly id: string; readonly text: string }[] {
  const run = (id: string, change: object): { id: string; text: string } => ({
    id,
    text: JSON.stringify({ ...runBeat({ run: id }), ...change }),
  });
  const ofSummary = (id: string, change: object) =>
    run(id, { summary: { ...runBeat({ run: id }).summary, ...change } });
  const worker = (id: string, change: object) => ({
    id,
    text: JSON.stringify({ ...workerBeat({ id }), ...change }),
  });
  const megabyte = 'W'.repeat(1_000_000);
  const markup = '<script>alert(1)</script>"><img src=x onerror=alert(2)>';
  return [
    { id: 'no-json', text: '{"v":1,' },
    { id: 'an-array', text: '[1,2,3]' },
    { id: 'nothing', text: '' },
    { id: 'null', text: 'null' },
    { id: 'deep', text: `${'['.repeat(400_000)}${']'.repeat(400_000)}` },
    {
      id: 'infinite',
      text: JSON.stringify(runBeat({ run: 'infinite' })).replace('"known":50', '"known":1e999'),
    },
    run('negative', { known: -50, rows_per_second: -1, pid: -7 }),
    ofSummary('negative-sums', {
      duration_s: -3_600,
      rows: { total: -1, completed: -1, filtered: -1, failed: -1, skipped: -1 },
      usage: { prompt_tokens: -1, completion_tokens: -2, total_tokens: -3 },
      calls: { sent: -1, retried: -1, rate_limited: -1, repeated: -1 },
      input: { path: 'x', sha256: 'x', rows: -9 },
      cost: -1e9,
      rows_per_second: -1,
    }),
    run('huge', { known: 1e300, rows_per_second: 1e-300, pid: 1e18 }),
    ofSummary('huge-sums', {
      duration_s: 1e300,
      rows: { total: 1, completed: 1e300, filtered: 0, failed: 1e300, skipped: 0 },
      usage: { prompt_tokens: 1e300, completion_tokens: 1e300, total_tokens: 1e300 },
      latency_ms: { p50: 1e300, p90: -1, p95: 0, p99: null, max: 1e300 },
      cost: 1e300,
    }),
    run('numbers-as-text', { known: 'NaN', rows_per_second: '10' }),
    ofSummary('wrong-types', { rows: [], answers: 'none', job: 7 }),
    ofSummary('markup', {
      job: markup,
      stopped: markup,
      answers: { [markup]: 5 },
      input: { path: markup, sha256: markup, rows: 1 },
    }),
    run('controls', { host: '\u001b[2J\u0007\u202e', waiting: '\u001b]0;title\u0007', queue: 'a:b\n{c}' }),
    ofSummary('long-texts', { job: megabyte, deployment: `${megabyte.slice(500_000)}` }),
    run('long-wait', { waiting: 'wait '.repeat(100_000), host: 'h'.repeat(100_000) }),
    ofSummary('many-names', {
      answers: Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`a${i}`, i])),
    }),
    {
      id: 'proto',
      text: JSON.stringify(runBeat({ run: 'proto' })).replace(
        '"answers":{',
        '"answers":{"__proto__":{"a":1},',
      ),
    },
    ofSummary('no-time', { started_at: 'yesterday', finished_at: '' }),
    ofSummary('future', { started_at: '9999-12-31T23:59:59Z', finished_at: '9999-12-31T23:59:59Z' }),
    run('bad-histogram', { latency: { histogram: 'A'.repeat(900_000), max: 1 } }),
    run('odd-histogram', {
      latency: { histogram: 'HISTFAAAABx4nJNpmSzMwMDAxAABzFCaEUoz2X+AMAA=', max: 1e300 },
    }),
    run('another-name', { run: 'somebody-else' }),
    worker('w-negative', { concurrency: -1, rows: -1, rows_per_second: -1, pid: -1 }),
    worker('w-long', { host: megabyte.slice(300_000), queues: [] }),
    worker('w-queues', {
      queues: Array.from({ length: 5_000 }, () => ({
        ...workerBeat().queues[0],
        waiting: 'for ever '.repeat(10),
      })),
    }),
    worker('w-types', { queues: {}, calls: [] }),
    worker('w-calls', { pid: 5, calls: { [markup]: 1e300, '': -5 } }),
  ];
}
