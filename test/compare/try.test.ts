import { existsSync, readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';

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
  expect(first.stderr).toContain("b.txt: 3 of 5 rows have the job's answer (60.0 %), 2 changed");
  expect(first.stderr).toContain('row  job  b.txt\n1    yes  no\n2    yes  (invalid) never\n');
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

  place.work.write('b.txt', 'no such {{ column }}');
  const wrong = await tried();
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toContain('--prompt b.txt: prompt uses');
  place.work.write('b.txt', ' \n');
  expect((await tried()).stderr).toContain('--prompt b.txt is empty');
  expect(place.service.requests).toHaveLength(15);
  expect(existsSync(place.work.path('out/try.try-job.report.html'))).toBe(false);
});
