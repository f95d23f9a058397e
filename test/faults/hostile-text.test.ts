import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';

/** What a spreadsheet would run, and what it must stay out of: the leading sign, after spaces too. */
const FORMULAS = ["=cmd|' /C calc'!A0", '+1+1', '@SUM(1,2)', '\ttab', '   =1+1', '-2+3|x'];
/** Only a template may have tags; in a row they are text. */
const TAGS = [
  "{{constructor.constructor('return 1')()}}",
  '{{#lambda}}x{{/lambda}}',
  '{{> id}}',
  '{{=<% %>=}}<% id %>',
];
const TIMEOUT = 300_000;

describe('hostile text, in a run on embedded,', () => {
  const work = new Workplace();
  let service: ScriptedService;
  beforeAll(async () => {
    service = await startScriptedService(({ prompt }) => ({ json: completionBody({ text: prompt }) }));
  });
  afterAll(async () => {
    await service.close();
    work.remove();
  });
  const env = () => ({ PROMPTMILL_BASE_URL: service.url });

  it(
    'fault 54: is inert in every cell of the output, in the header, and raw only where that is asked',
    async ({ task }) => {
      const rows = FORMULAS.map((text) => `"${text}"`).join('\n');
      const input = work.write('formulas.csv', `=1+1\n${rows}\n`);
      const job = { input: { path: input }, prompt: '{{& =1+1 }}' };
      const first = await work.call(['run', work.job({ ...job, output: { path: 'inert.csv' } })], env());
      expect(first.code, first.stderr).toBe(0);
      const [header = '', ...records] = work.read('inert.csv').trim().split('\n');
      expect(header).toMatch(/^'=1\+1,/);
      expect(records.length).toBe(FORMULAS.length);
      expect(
        work.records('inert.csv').map((record) => [record["'=1+1"], record['answer'], record['text']]),
      ).toEqual(
        // The service's text is trimmed, and may become harmless by it.
        FORMULAS.map((text) => [`'${text}`, inert(text.trim()), inert(text.trim())]),
      );
      const cells = work.records('inert.csv').flatMap((record) => Object.values(record));
      expect(cells.filter((cell) => /^\s*[=+@]/.test(cell))).toEqual([]);

      const raw = work.job({ ...job, output: { path: 'raw.csv', formulas: 'raw' } });
      const second = await work.call(['run', raw], env());
      expect(second.code, second.stderr).toBe(0);
      expect(work.records('raw.csv').map((record) => record['=1+1'])).toEqual(FORMULAS);
      task.meta.fault = { rows: 2 * FORMULAS.length, calls: service.requests.length };
    },
    TIMEOUT,
  );

  it(
    'fault 56: is no template in a row, and none that runs in a prompt',
    async ({ task }) => {
      const before = service.requests.length;
      const input = work.write('tags.csv', `id\n${TAGS.map((text) => `"${text}"`).join('\n')}\n`);
      const job = { input: { path: input }, prompt: 'a {{ id }} b' };
      const { code, stderr } = await work.call(
        ['run', work.job({ ...job, output: { path: 'tags.out.csv' } })],
        env(),
      );
      expect(code, stderr).toBe(0);
      expect(work.records('tags.out.csv').map(({ answer }) => answer)).toEqual(
        TAGS.map((text) => `a ${text} b`),
      );
      expect(service.requests.length - before).toBe(TAGS.length);

      for (const prompt of TAGS) {
        const refused = await work.call(
          ['run', work.job({ ...job, prompt, output: { path: 'never.csv' } })],
          env(),
        );
        expect(refused.code, prompt).toBe(2);
        expect(refused.stderr).toContain('prompt');
        expect(refused.stderr).not.toMatch(/^ +at /m);
      }
      expect(service.requests.length - before).toBe(TAGS.length);
      task.meta.fault = { rows: TAGS.length, calls: TAGS.length };
    },
    TIMEOUT,
  );
});

const inert = (text: string): string => (/^[=+\-@]/.test(text) ? `'${text}` : text);
