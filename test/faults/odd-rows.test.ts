import { spawnSync } from 'node:child_process';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import './figures.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, type ScriptedService, startScriptedService } from '../support/scripted-service.js';
import { describeOn } from '../support/stores.js';

/** Of a busy machine. */
const TIMEOUT = 300_000;

/** NUL, half of a surrogate pair, emoji of several code points, right-to-left text and its override. */
const TEXTS = ['nul \0 here', 'lone \ud800 high', 'low \udc00 lone', '👩‍👩‍👧 ok', 'שלום עולם', '\u202eabc'];

const work = new Workplace();
let service: ScriptedService;
beforeEach(async () => {
  service = await startScriptedService(({ prompt }) => {
    // A prompt comes as well-formed text; the answer has the text of the row, halves of pairs and all.
    const text = TEXTS.find((each) => each.toWellFormed() === prompt) ?? prompt;
    return { json: completionBody({ text: ` of ${text}` }) };
  });
  return () => service.close();
});
afterAll(() => work.remove());

const run = (job: string, env: Readonly<Record<string, string>> = {}) =>
  work.call(['run', job], { PROMPTMILL_BASE_URL: service.url, ...env });

const lines = (name: string) => work.lines(name);

describeOn('redis', 'any text', (store) => {
  it(
    'fault 8: any text reaches the service well-formed, and store and output unchanged',
    async ({ task }) => {
      const rows = TEXTS.map((text) => JSON.stringify({ text }));
      const input = work.write('texts.jsonl', `${rows.join('\n')}\n`);
      const job = work.job({
        input: { path: input },
        prompt: '{{ text }}',
        output: { path: 'texts.out.jsonl' },
      });
      const { code, stderr } = await run(job, store().env);
      expect(code, stderr).toBe(0);
      const sent = TEXTS.map((text) => text.toWellFormed());
      expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(sent.sort());
      const records = lines('texts.out.jsonl');
      expect(records.map((record) => record.input.text)).toEqual(TEXTS);
      expect(records.map((record) => record.text)).toEqual(TEXTS.map((text) => ` of ${text}`));
      task.meta.fault = { rows: TEXTS.length, calls: service.requests.length };
    },
    TIMEOUT,
  );
});

describe('rows out of the ordinary, on embedded', () => {
  it(
    'fault 5: a ragged record fails alone, with its line, and its neighbours are answered',
    async ({ task }) => {
      const input = work.write('ragged.csv', 'id,note\n1,a\n2\n3,"b\nc",d\n4,e\n');
      const { code, stderr } = await run(
        work.job({ input: { path: input }, output: { path: 'ragged.out.csv' } }),
      );
      expect(code, stderr).toBe(1);
      const records = work.records('ragged.out.csv');
      expect(records.map((row) => [row['id'], row['status'], row['error_code']])).toEqual([
        ['1', 'completed', ''],
        ['2', 'failed', 'ragged_record'],
        ['3', 'failed', 'ragged_record'],
        ['4', 'completed', ''],
      ]);
      expect(records[1]?.['error_message']).toContain('line 3');
      expect(records[2]?.['error_message']).toContain('line 4');
      expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(['row 1', 'row 4']);
      task.meta.fault = { rows: 4, calls: 2 };
    },
    TIMEOUT,
  );

  it(
    'faults 9 and 10: names of a prototype are columns, and what looks like a number is text',
    async ({ task }) => {
      const input = work.write(
        'plain.csv',
        '__proto__,constructor,toString,hasOwnProperty\n00012,1e5,12345678901234567890,true\n-1.50,+7,NaN,null\n',
      );
      const prompt = '{{ __proto__ }}|{{ constructor }}|{{ toString }}|{{ hasOwnProperty }}';
      const { code, stderr } = await run(
        work.job({ input: { path: input }, prompt, output: { path: 'plain.out.csv' } }),
      );
      expect(code, stderr).toBe(0);
      const expected = ['00012|1e5|12345678901234567890|true', '-1.50|+7|NaN|null'];
      expect(service.requests.map((request) => request.prompt).sort()).toEqual(expected.toSorted());
      const out = work.read('plain.out.csv').split('\n');
      expect(out[0]).toMatch(/^__proto__,constructor,toString,hasOwnProperty,status,/);
      expect(out.slice(1, 3).map((line) => line.split(',').slice(0, 4).join('|'))).toEqual(expected);
      task.meta.fault = { rows: 2, calls: 2 };
    },
    TIMEOUT,
  );

  it(
    'fault 11: bad lines of JSONL fail alone, blank ones are no rows, and numbers stay in step',
    async ({ task }) => {
      const input = work.write('bad.jsonl', '{"id":1}\n\n{"id":\n[1,2]\r\n"text"\n   \n{"id":6}\n');
      const { code, stderr } = await run(
        work.job({ input: { path: input }, output: { path: 'bad.out.jsonl' } }),
      );
      expect(code, stderr).toBe(1);
      const records = lines('bad.out.jsonl');
      expect(records.map(({ row, status }) => [row, status])).toEqual([
        [1, 'completed'],
        [2, 'failed'],
        [3, 'failed'],
        [4, 'failed'],
        [5, 'completed'],
      ]);
      expect(records.slice(1, 4).map(({ error }) => /line \d+/.exec(error.message)?.[0])).toEqual([
        'line 3',
        'line 4',
        'line 5',
      ]);
      expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(['row 1', 'row 6']);
      task.meta.fault = { rows: 5, calls: 2 };
    },
    TIMEOUT,
  );

  it(
    'fault 16: 500 columns come out as they went in',
    async ({ task }) => {
      const names = Array.from({ length: 500 }, (_, i) => `c${i}`);
      const rows = [1, 2].map((row) => names.map((name) => `${name} of row ${row}`));
      const input = work.write(
        'wide.csv',
        `${[names, ...rows].map((cells) => cells.join(',')).join('\n')}\n`,
      );
      const job = work.job({
        input: { path: input },
        prompt: '{{ c499 }}',
        output: { path: 'wide.out.csv' },
      });
      const { code, stderr } = await run(job);
      expect(code, stderr).toBe(0);
      expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(['c499 of row 1', 'c499 of row 2']);
      expect(work.records('wide.out.csv').map((record) => names.map((name) => record[name]))).toEqual(rows);
      task.meta.fault = { rows: 2, calls: 2 };
    },
    TIMEOUT,
  );

  it(
    'fault 71: a quote inside a cell is data, and comes out as it went in',
    async ({ task }) => {
      const text = `id,size,place\n1,5'11",37°36'37.8"N\n2,"5"" nail","a\nb"\n3,"abc"def,"x" \n`;
      const input = work.write('quotes.csv', text);
      const job = work.job({
        input: { path: input },
        prompt: '{{ size }}|{{ place }}',
        output: { path: 'quotes.out.csv', columns: ['id', 'size', 'place'], formulas: 'raw' },
      });
      const { code, stderr } = await run(job);
      expect(code, stderr).toBe(0);
      const expected = [`5'11"|37°36'37.8"N`, '5" nail|a\nb', 'abcdef|x '];
      expect(service.requests.map(({ prompt }) => prompt).sort()).toEqual(expected.toSorted());
      const out = work.records('quotes.out.csv').map(({ size, place }) => `${size}|${place}`);
      expect(out).toEqual(expected);
      task.meta.fault = { rows: 3, calls: 3 };

      // Python reads the same cells from the input and from the output.
      const tables = ['quotes.csv', 'quotes.out.csv'].map((name) => pythonReads(work.path(name)));
      if (tables[0] === null) console.log('python3 is not here, so Python is not asked to read the cells');
      expect(tables[0]).toEqual(tables[1]);
    },
    TIMEOUT,
  );
});

/** What Python's csv module makes of a file; null where there is no Python. */
function pythonReads(path: string): unknown {
  const script =
    'import csv, json, sys; print(json.dumps(list(csv.reader(open(sys.argv[1], encoding="utf-8", newline="")))))';
  const { error, status, stdout } = spawnSync('python3', ['-c', script, path], { encoding: 'utf8' });
  return error !== undefined || status !== 0 ? null : JSON.parse(stdout);
}
