import { appendFileSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { chatBody, completionBody } from '../support/scripted-service.js';

const place = scriptedPlace();
const JOB = {
  input: { path: 'rows.csv' },
  answer: { labels: ['yes', 'no'] },
  output: { path: 'out/{{date}}.csv' },
  limits: { concurrency: 4 },
};

it('try compares a prompt with that of the job on the same rows, and calls no row again whose prompt is the same', async () => {
  place.work.rows(9);
  place.work.write('b.txt', 'other {{ id }}\n');
  const job = place.work.job(JOB);
  const other: Readonly<Record<string, string>> = { 'other 1': 'no', 'other 2': 'never' };
  place.script = ({ prompt }) => ({ json: completionBody({ text: other[prompt] ?? 'yes' }) });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const tried = (...flags: string[]) =>
    place.work.call(['try', job, '--prompt', 'b.txt', '--rows', '5', ...flags], env);
  const first = await tried();
  expect(first.code, first.stderr).toBe(0);
  expect(first.stderr).toContain('b.txt and the job agree on 3 of 5 rows (60.0 %)');
  expect(first.stderr).toMatch(
    /row {2}job {2}b\.txt {12}input\n1 {4}yes {2}no {15}1\n2 {4}yes {2}\(invalid\) never {2}2\n/,
  );
  expect(place.service.calls('other 5')).toBe(1);
  const [changed = '', output = ''] = readdirSync(place.work.path('out')).filter((name) =>
    /^try\.try-b-[0-9a-f]{6}(-changed)?\.csv$/.test(name),
  );
  expect(place.work.records(`out/${output}`)).toHaveLength(5);
  expect(place.work.records(`out/${changed}`)).toHaveLength(2);

  place.work.write('b.txt', 'third {{ id }}');
  const second = await tried('--json');
  expect(JSON.parse(second.stdout)).toMatchObject({
    variants: [
      { name: 'job', rows: 5, invalid: 0, accuracy: null, cost: null, against_first: null },
      { name: 'b.txt', rows: 5, against_first: { agreement: 1, changed: 0 } },
    ],
    paid: { calls: 5 },
  });
  expect(place.service.calls('row 1')).toBe(1);
  expect(place.service.calls('third 1')).toBe(1);
  expect(place.service.requests).toHaveLength(15);

  const edited = place.work.path('out/try.try-job.csv');
  appendFileSync(edited, '\n');
  const refused = await tried('--rows', '6');
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain('Move out/try.try-job.csv away: the same command makes it anew.');
  rmSync(edited);
  const anew = await tried('--rows', '6');
  expect(anew.code, anew.stderr).toBe(0);
  const sent = place.service.requests.length;

  place.work.write('b.txt', 'no such {{ column }}');
  const wrong = await tried();
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('--prompt b.txt: prompt uses');
  place.work.write('b.txt', ' \n');
  expect((await tried()).stderr).toContain('--prompt b.txt is empty');
  expect(place.service.requests).toHaveLength(sent);
  expect(existsSync(place.work.path('out/try.try-job.report.html'))).toBe(false);
});

const TALK = {
  service: { deployment: 'lm-4', operation: 'chat' },
  prompt: undefined,
  messages: [{ role: 'user', content: 'row {{ id }}' }],
};

it('try calls for each variant what no other one has asked, and compares what their answers cost', async () => {
  const ids = Array.from({ length: 30 }, (_, i) => i + 1);
  place.work.write(
    'rows.csv',
    `id,truth\n${ids.map((id) => `${id},${id % 3 === 0 ? 'no' : 'yes'}\n`).join('')}`,
  );
  place.work.write('b.txt', 'other {{ id }}');
  place.script = ({ prompt }) => {
    const [kind, id] = prompt.split(' ');
    return { json: completionBody({ text: kind === 'other' && Number(id) % 3 === 0 ? 'no' : 'yes' }) };
  };
  const prices = { prompt: 1, completion: 2 };
  const job = place.work.job({ ...JOB, answer: { ...JOB.answer, gold: 'truth' }, prices });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const call = async (...args: string[]) => {
    const { code, stderr, stdout } = await place.work.call(args, env);
    expect(code, stderr).toBe(0);
    const asked = place.service.requests.map(({ body }) => JSON.stringify(body));
    expect(new Set(asked).size, 'different requests').toBe(asked.length);
    return { stderr, ...(stdout === '' ? {} : JSON.parse(stdout)) };
  };
  await call('run', job, '--sample', '20');
  expect(place.service.calls()).toBe(20);
  const labels = 'answer.labels=[yes, no, perhaps]';
  const variants = ['--prompt', 'b.txt', '--set', labels, '--set', 'parameters.top_p=0.5'];
  const first = await call('try', job, '--rows', '20', ...variants, '--json');
  expect(place.service.calls()).toBe(60);
  expect(first.paid).toEqual({ calls: 40, tokens: 40 * 12, cost: 40 * 0.014 });
  const [asItIs, b, more, cool] = first.variants;
  for (const one of [asItIs, b, more, cool]) expect(one).toMatchObject({ rows: 20, tokens: 240, cost: 0.28 });
  const wrong = Math.round(20 * (1 - asItIs.accuracy.value));
  expect(b).toMatchObject({ accuracy: { value: 1 }, f1: 1, against_first: { better: wrong, worse: 0 } });
  expect(b.against_first.p).toBeCloseTo(2 ** (1 - wrong));
  for (const one of [more, cool])
    expect(one.against_first).toMatchObject({ changed: 0, better: 0, worse: 0, p: 1 });

  // Another variant, other rows, and the first again.
  await call('try', job, '--rows', '20', '--set', 'parameters.top_p=0.7', '--json');
  expect(place.service.calls()).toBe(80);
  const wider = await call('try', job, '--rows', '25', ...variants, '--json');
  expect(wider.variants.map(({ rows, tokens }: { rows: number; tokens: number }) => [rows, tokens])).toEqual(
    Array(4).fill([25, 300]),
  );
  const { stderr } = await call('try', job, '--rows', '25', ...variants);
  expect(stderr).toContain('paid now: 0 calls, 0 tokens, cost 0.00');
  expect(stderr).toContain(
    `b.txt is right on ${Math.round(25 * (1 - wider.variants[0].accuracy.value))} rows that the job has wrong`,
  );
});

it('try is refused before anything is sent, by the name of the variant that is no valid job', async () => {
  place.work.rows(9);
  place.work.rows(9, 'other.csv');
  place.work.write('b.txt', 'other {{ id }}');
  const refused = async (job: string, ...flags: string[]) => {
    const env = { PROMPTMILL_BASE_URL: place.service.url };
    const { code, stderr } = await place.work.call(['try', job, ...flags], env);
    expect(code, stderr).toBe(2);
    return stderr;
  };
  const job = place.work.job(JOB);
  expect(await refused(job)).toContain('none is named');
  const good = ['--prompt', 'b.txt', '--deployment', 'another'];
  expect(await refused(job, ...good, '--set', 'parameters.temprature=1')).toContain(
    '--set parameters.temprature=1',
  );
  expect(await refused(job, ...good, '--set', 'answer.gold=truth')).toContain('--set answer.gold=truth: ');
  expect(await refused(job, ...good, '--set', 'input.path=other.csv')).toContain(
    '--set input.path=other.csv reads other rows than the job',
  );
  expect(await refused(job, '--deployment', 'lm-4')).toContain('--deployment lm-4: ');
  const talk = place.work.job({ ...JOB, ...TALK }, 'chat.yaml');
  expect(await refused(talk, ...good)).toContain('chat.yaml has messages');
  expect(place.service.requests).toHaveLength(0);
});

it('try has one budget for all variants, and goes on under a larger one without a row called twice', async () => {
  place.work.rows(9);
  place.work.write('b.txt', 'other {{ id }}');
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const parameters = { max_tokens: 2, temperature: 0 };
  // Each call is billed 12 tokens.
  const tried = (tokens: number, ...flags: string[]) => {
    const limits = { concurrency: 1, budget: { tokens } };
    const job = place.work.job({ ...JOB, parameters, limits });
    return place.work.call(['try', job, '--prompt', 'b.txt', ...flags], env);
  };
  const first = await tried(12 * 14);
  expect(first.code, first.stderr).toBe(3);
  expect(first.stderr).toContain(
    'b.txt: limits.budget is for all variants together: 108 of 168 tokens spent by the others',
  );
  expect(place.service.calls()).toBeLessThanOrEqual(14);
  expect(place.service.calls()).toBeGreaterThan(9);

  const second = await tried(12 * 18 + 12, '--json');
  expect(second.code, second.stderr).toBe(0);
  expect(place.service.calls()).toBe(18);
  const { paid, variants } = JSON.parse(second.stdout);
  expect(variants.map(({ tokens }: { tokens: number }) => tokens)).toEqual([108, 108]);
  expect(paid.calls).toBeLessThan(9);

  // A further variant finds the budget used up.
  const third = await tried(12 * 18 + 12, '--set', 'parameters.top_p=0.5');
  expect(third.code, third.stderr).toBe(3);
  expect(place.service.calls()).toBeLessThanOrEqual(19);
  const calls = place.service.calls();
  const fourth = await tried(12 * 18, '--set', 'parameters.top_p=0.7');
  expect(fourth.code, fourth.stderr).toBe(3);
  expect(fourth.stderr).toContain('limits.budget.tokens is 0, of which 0 is spent');
  expect(place.service.calls()).toBe(calls);
});

it('try that is interrupted goes on with the same command, and calls no row twice', async () => {
  place.work.rows(20);
  place.work.write('b.txt', 'other {{ id }}');
  const job = place.work.job({ ...JOB, limits: { concurrency: 2 } });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const command = ['try', job, '--prompt', 'b.txt', '--set', 'parameters.top_p=0.5'];
  const running = place.work.start(command, env);
  place.script = ({ total }) => {
    if (total === 27) running.process.kill('SIGINT');
    return {};
  };
  const { code, stderr } = await running.ended;
  expect(code, stderr).toBe(130);
  expect(stderr).toContain('The same command goes on where it stopped.');
  expect(place.service.calls()).toBeLessThan(60);
  const again = await place.work.call(command, env);
  expect(again.code, again.stderr).toBe(0);
  expect(place.service.calls()).toBe(60);
  const asked = place.service.requests.map(({ body }) => JSON.stringify(body));
  expect(new Set(asked).size).toBe(60);
});

it('try takes a job with messages, whose variants may change one of them', async () => {
  place.work.rows(3);
  const job = place.work.job({ ...JOB, ...TALK });
  place.script = () => ({ json: chatBody({ content: 'yes' }) });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const flags = ['--deployment', 'lm-35-turbo', '--set', 'messages.0.content=other {{ id }}', '--json'];
  const { code, stderr, stdout } = await place.work.call(['try', job, ...flags], env);
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout).variants.map(({ name }: { name: string }) => name)).toEqual([
    'job',
    'lm-35-turbo',
    'messages.0.content=other {{ id }}',
  ]);
  expect(place.service.calls('row 1')).toBe(2);
  expect(place.service.calls('other 1')).toBe(1);
  expect(place.service.requests.filter(({ url }) => url.includes('lm-35-turbo'))).toHaveLength(3);
});
