import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';

const place = scriptedPlace();
const ROWS = 40;

it('compare says which of two prompts is better, and what else the runs have different', async () => {
  const texts = Array.from({ length: ROWS }, (_, i) => `text ${i}`);
  place.work.write(
    'rows.csv',
    `id,review,stars\n${texts.map((text, i) => `${i},${text},${i % 2 === 0 ? 5 : 1}`).join('\n')}\n`,
  );
  // With the first prompt every row is good; with the other one the even rows are.
  place.script = ({ prompt }) => {
    const [, number] = /text (\d+)/.exec(prompt) ?? [];
    const isGood = prompt.startsWith('Rate ') || Number(number) % 2 === 0;
    return { json: completionBody({ text: isGood ? 'good' : 'bad' }) };
  };
  const job = (name: string, prompt: string, temperature: number): string =>
    place.work.job({
      ...{ name: 'reviews', input: { path: 'rows.csv' }, output: { path: `out/${name}.csv` }, prompt },
      parameters: { temperature },
      answer: { labels: ['good', 'bad'], gold: { column: 'stars', map: { good: 5, bad: 1 } } },
    });
  const env = { PROMPTMILL_BASE_URL: place.service.url };
  const prompts = { a: 'Rate it.\n{{ review }}', b: 'Rating of it?\nBe fair.\n{{ review }}' };
  for (const [name, prompt] of Object.entries(prompts)) {
    const run = await place.work.call(['run', job(name, prompt, name === 'a' ? 0 : 1)], env);
    expect(run.code, run.stderr).toBe(0);
  }
  const compared = await place.work.call(['compare', 'out/a.csv', 'out/b.csv', '--html', 'page.html'], env);
  expect(compared.code, compared.stderr).toBe(0);
  expect(compared.stderr).toContain(
    'b is right on 20 rows that a has wrong, and wrong on 0 that a has right (p < 0.001): b is better\n' +
      '40 rows are completed or filtered in both; 50.0 % of those agree\n',
  );
  expect(compared.stderr).toMatch(
    /- Rate it\.\n.*\+ Rating of it\?\n.*\+ Be fair\.\n.* {2}\{\{ review \}\}\n/,
  );
  expect(compared.stderr).toMatch(/parameters\.temperature +0 +1\n/);
  expect(compared.stderr).toMatch(/row +gold +b is +a +b +input\n +2 +bad +better +good +bad +text 1\n/);
  expect(readFileSync(place.work.path('page.html'), 'utf8')).toContain('b is better');
  const json = await place.work.call(['compare', 'out/a.csv', 'out/b.csv', '--gold', 'stars', '--json'], env);
  expect(JSON.parse(json.stdout)).toMatchObject({
    ...{ rows: ROWS, changed: 20, agreement: 0.5 },
    verdict: { accuracy_a: { value: 0.5 }, accuracy_b: { value: 1 }, better: 20, worse: 0, says: 'b' },
  });
});
