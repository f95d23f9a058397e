import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import './figures.js';
import { answerReader } from '../../src/answer/answer.js';
import { firstClash } from '../../src/answer/label-index.js';
import { readEnvironment } from '../../src/config/environment.js';
import { readJobFile } from '../../src/config/job-file.js';
import { settle } from '../../src/config/settings.js';
import { answer } from '../../src/emulator/answers/answer.js';
import { readPrompt } from '../../src/emulator/answers/read-prompt.js';
import { csv } from '../../src/output/csv.js';
import { recordFormat } from '../../src/output/format.js';
import { escapeFormula, unescapeFormula } from '../../src/output/formula.js';
import { jsonl } from '../../src/output/jsonl.js';
import { contextCheck, loadTokenizer } from '../../src/prompt/tokens.js';
import { escapeControls } from '../../src/render/terminal-text.js';
import { keyCleaner } from '../../src/service/key-cleaner.js';
import { completions } from '../../src/service/operation.js';
import { verdicts } from '../../src/service/verdict.js';
import { said } from '../answer/said.js';
import { completed, csvRow } from '../output/records.js';
import { Workplace } from '../support/promptmill.js';
import { completionBody, startScriptedService } from '../support/scripted-service.js';

const SMALL = 65_000;
const FACTOR = 8;

/** So many characters of a text again and again. */
const run = (text: string) => (length: number) => text.repeat(length / text.length + 1).slice(0, length);
const list = (item: (i: number) => string, size: number) => (length: number) =>
  Array.from({ length: length / size }, (_, i) => item(i)).join();

/** What is almost something else, of any length. */
const ALMOST: Readonly<Record<string, (length: number) => string>> = {
  'a number': (n) => `-${run('1')(n)}x`,
  'a number with many points': (n) => `-${run('1.')(n)}`,
  'an exponent': (n) => `+1e${run('1')(n)}e`,
  'a number and white space': (n) => `-1${run(' ')(n)}x`,
  'white space': (n) => `${run(' ')(n)}x`,
  'lines of nothing': (n) => `${run('\n')(n)}x`,
  'a formula behind apostrophes': (n) => `${run("'")(n)}=`,
  'a formula behind NUL': (n) => `${run('\0')(n)}=`,
  'characters without width': run('\u200b'),
  'combining marks': (n) => `a${run('\u0301\u0316')(n)}`,
  emoji: run('👍'),
  'a word': (n) => `${run('a')(n)}!`,
  words: run('a '),
  'a label': run('very goo '),
  labels: run('good '),
  'labels behind a negation': run('not a very good '),
  'a label in two': (n) => `very${run(' ')(n)}good bad`,
  'two labels far apart': (n) => `good${run('!')(n)}bad`,
  'two labels at the end': (n) => `${run('!')(n)}good bad`,
  negations: run("isn't very "),
  'an object': run('{"a":'),
  'objects that are none': run('{a}'),
  objects: run('{}'),
  'an array': run('['),
  'an array, closed': (n) => run('[')(n / 2) + run(']')(n / 2),
  'a string': (n) => `"${run('\\"')(n)}`,
  'a string of backslashes': (n) => `{"s":"${run('\\')(n)}`,
  'a string for a pattern': (n) => `{"s":"${run('a')(n)}"}`,
  'a string of escapes': (n) => `{"s":"${run('\\u0041')(n)}"}`,
  'a digit in JSON': (n) => `{"n":${run('1')(n)}}`,
  'unique numbers': (n) => `{"tags":[${list(String, 6)(n)}]}`,
  'unique objects': (n) => `{"tags":[${list((i) => `{"a":${i}}`, 13)(n)}]}`,
  'many members': (n) => `{${list((i) => `"k${i}":1`, 11)(n)}}`,
  'an error': (n) => `{"error":{"message":${JSON.stringify(run('model api version ')(n))}}}`,
  'a wait': (n) => `{"error":{"message":"try again in ${run('1')(n)}"}}`,
  'a completion': (n) => JSON.stringify(completionBody({ text: run('\u00e9"')(n) })),
  HTML: run('<html '),
  'labels in a list': run('good and bad; '),
  'labels and values': run('good: 0.3 days\n- bad (no'),
  'marks behind a label': (n) => `good${run('& ')(n)}bad`,
  'a list of nothing': (n) => `[${run(' ')(n)}`,
  digits: run('1'),
  'one number in many forms': run('4 4.0 not 4 '),
  'numbers on a scale': run('1 to 5, 4/5 '),
  'a number and its unit': (n) => `4${run(' ')(n)}million`,
  'a prompt of fields': run('Text: '),
  'a prompt that lists labels': run('as one of: a, b or '),
  'percent signs': run('%25'),
  'the signs of HTML': run('&amp;'),
  'numbers of HTML': run('&#0'),
  'quoted lines': run('","\r\n'),
};

const scratch = mkdtempSync(join(tmpdir(), 'promptmill-linear-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const labels = answerReader({ kind: 'labels', labels: ['good', 'very good', 'bad', 'not_spam', '4', '!!'] });
const several = answerReader({
  kind: 'labels',
  labels: ['good', 'bad', 'spam', '4'],
  synonyms: [['very good'], [], ['not_spam'], ['!!']],
  multiple: true,
});
const number = answerReader({ kind: 'number', min: 1, max: 5 });
const schema = {
  properties: { s: { pattern: '(a+)b' }, tags: { type: 'array', uniqueItems: true }, n: { type: 'number' } },
};
const shape = { inputColumns: ['a'], answer: answerReader({ kind: 'text' }) };
const json = answerReader({ kind: 'json', schema });
const mending = answerReader({ kind: 'json', schema: {}, repair: true });
const clean = keyCleaner('canary-key-0123456789');
const fits = contextCheck(4097, () => loadTokenizer('cl100k_base'));
const csvRecords = recordFormat({ format: csv, ...shape });
const jsonlRecords = recordFormat({ format: jsonl, ...shape });
const response = (status: number, body: string) =>
  verdicts(
    { kind: 'response', status, headers: { 'retry-after': body }, body, latency_ms: 1 },
    0,
    { prompts: 1, choices: 1, withLogprobs: false, operation: completions },
    1,
  );

/** Everything that a row, an answer or an error meets. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  'the guard of formulas': (text) => escapeFormula(text),
  'the guard, undone': (text) => unescapeFormula(`'${text}`),
  'a record of CSV': (text) => csvRecords.format(csvRow({ a: text }), completed, null),
  'a record of JSONL': (text) => jsonlRecords.format(csvRow({ a: text }), completed, null),
  'a label answer': (text) => labels.read(said(text)),
  'an answer of several labels': (text) => several.read(said(text)),
  'a number': (text) => number.read(said(text)),
  'a JSON answer': (text) => json.read(said(text)),
  'a JSON answer that is mended': (text) => mending.read(said(text)),
  'the body of an answer': (text) => response(200, text),
  'the body of an error': (text) => response(400, text),
  'the body of a refusal': (text) => response(429, text),
  'the search for a key': (text) => clean(text),
  'the check of the context window': (text) => fits(text, 5),
  'the terminal': (text) => escapeControls(text),
  'the emulator': (text) => answer(readPrompt(text, { kind: 'text' }), () => 0.5, 0),
  'the .env file': (text) => {
    writeFileSync(join(scratch, '.env'), text);
    return readEnvironment({}, join(scratch, '.env'));
  },
};

describe('texts of half a megabyte, with no process,', () => {
  it.each(Object.entries(READERS))(
    'fault 69: %s takes time by the length of a text that is almost something else',
    (_, read) => {
      for (const [name, text] of Object.entries(ALMOST)) {
        const small = spent(() => read(text(SMALL)));
        const large = spent(() => read(text(FACTOR * SMALL)));
        // Eight times the time is linear, 64 times is not; below half a second it may be the garbage of another text.
        expect(large, name).toBeLessThan(500 + 24 * small);
      }
    },
  );

  it('fault 69: JSON is mended, or given up, in a time that is bounded', () => {
    const hostile = {
      ...ALMOST,
      // The library alone takes minutes for some of these.
      'quotes inside of quotes': run('"a "b '),
      'entities of HTML': run('&quot;a&quot; '),
      'strings with brackets': (n: number) => `"${run('(')(n / 2)}${run('")')(n / 2)}"`,
      'strings in parts': (n: number) => `"a"${run(' + "b"')(n)}`,
      'strings of no comma': run('"a" '),
      'numbers of no comma': run('1\n'),
      'keys without quotes': run('a:b\n'),
      quotes: run("'"),
    };
    for (const [name, text] of Object.entries(hostile)) {
      for (const brackets of ['[]', '{}']) {
        const most = `${brackets[0]}${text(31_000)}${brackets[1]}`;
        expect(
          spent(() => mending.read(said(most))),
          name,
        ).toBeLessThan(2_000);
      }
    }
  });

  it('fault 69: an answer of 100,000 open brackets ends no stack', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    expect(json.read(said(`{"tags":${deep}}`)).problem?.code).toBe('answer_not_json');
    expect(mending.read(said('['.repeat(31_000))).problem?.code).toBe('answer_not_json');
    const [verdict] = response(
      200,
      `{"choices":[{"index":0,"text":"x","finish_reason":"stop"}],"x":${deep}}`,
    );
    expect(verdict).toMatchObject({ kind: 'final', outcome: { status: 'completed' } });
    expect(response(400, deep)[0]).toMatchObject({ kind: 'final', outcome: { status: 'failed' } });
  });

  it('fault 69: an answer that holds items twice, or a value too long for its pattern, is not valid', () => {
    expect(json.read(said('{"tags":[1,2,3]}')).problem).toBeNull();
    expect(json.read(said('{"tags":[{"a":1,"b":2},{"b":2,"a":1}]}')).problem?.message).toBe(
      'answer.tags must NOT have duplicate items',
    );
    expect(json.read(said('{"s":"aab"}')).problem).toBeNull();
    expect(json.read(said(`{"s":"${'a'.repeat(10_001)}b"}`)).problem?.message).toContain(
      'must match pattern',
    );
  });
});

/** Milliseconds of processor time. */
function spent(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  return process.cpuUsage(before).user / 1000;
}

describe('20,000 labels', () => {
  const many = Array.from({ length: 20_000 }, (_, i) => `label ${i}`);

  it('fault 74: are read at once, and an answer takes no longer for them', () => {
    const reader = answerReader({ kind: 'labels', labels: many });
    for (const label of ['label 1', 'label 19', 'label 199', 'label 1999', 'label 19999']) {
      // Each is the beginning of the next.
      expect(reader.read(said(`The answer is: ${label.toUpperCase()}.`)).values).toEqual([label]);
    }
    expect(reader.read(said('label 20000')).problem?.message).toMatch(/^.{1,300} and 19990 more$/);
    const few = answerReader({ kind: 'labels', labels: many.slice(0, 20) });
    const text = 'label x '.repeat(20_000);
    const withFew = spent(() => few.read(said(text)));
    const withMany = spent(() => reader.read(said(text)));
    expect(withMany).toBeLessThan(500 + 10 * withFew);
  });

  it('fault 74: twice as many take twice the time to begin with', () => {
    const start = (count: number) =>
      spent(() =>
        answerReader({
          kind: 'labels',
          labels: Array.from({ length: count }, (_, i) => `a${'b'.repeat(i % 50)}${i}`),
        }),
      );
    expect(start(80_000)).toBeLessThan(500 + 24 * start(10_000));
  });

  it('fault 74: are read out of a text that names them all', () => {
    const reader = answerReader({ kind: 'labels', labels: many, multiple: true });
    expect(reader.read(said(many.toReversed().join('; '))).values).toEqual([many]);
  });

  it('fault 74: twice as many in a job file, with synonyms, take twice the time to begin with', () => {
    const path = join(scratch, 'job.yaml');
    const start = (count: number) => {
      const labels = Array.from({ length: count }, (_, i) => `    a${i}: [b${i}]\n`).join('');
      const head = 'service: { deployment: d }\ninput: { path: a.csv }\n';
      writeFileSync(path, `${head}answer:\n  labels:\n${labels}`);
      return spent(() => answerReader(settle(readJobFile(path), readEnvironment({}), {}).answer));
    };
    expect(start(40_000)).toBeLessThan(500 + 24 * start(5_000));
  });

  it('fault 74: two that are the same are told, wherever they are', () => {
    const labels = [...many, 'LABEL_7'].map((label) => [label]);
    expect(firstClash(labels)).toEqual({ place: { label: 20_000, name: 0 }, as: { label: 7, name: 0 } });
  });
});

describe('a cell and an answer of a megabyte and 20,000 labels, in a run on embedded', () => {
  const work = new Workplace();
  afterAll(() => work.remove());

  it('faults 69 and 74: end in seconds, and so does a rehearsal', async ({ task }) => {
    const number = `-${'1'.repeat(1_000_000)}x`;
    const reply = `not label 1 ${'[{"label 1"'.repeat(90_000)}`;
    const service = await startScriptedService(({ prompt }) => ({
      json: completionBody({ text: prompt === 'row 1' ? reply : 'Label_7!' }),
    }));
    try {
      const input = work.write('cells.csv', `id,note\n1,${number}\n2,b\n`);
      const labels = Array.from({ length: 20_000 }, (_, i) => `label ${i}`);
      const job = { input: { path: input }, answer: { labels }, output: { path: 'out.csv' } };
      const { code, stderr } = await work.call(['run', work.job(job)], { PROMPTMILL_BASE_URL: service.url });
      expect(code, stderr).toBe(0);
      const [first, second] = work.records('out.csv');
      expect(first?.['note'] === `'${number}`).toBe(true);
      expect(first?.['error_code']).toBe('');
      expect(first?.['answer']).toBe('label 1');
      expect(second?.['answer']).toBe('label 7');
      const summary = JSON.parse(work.read('out.summary.json'));
      // A quadratic guard of formulas took 40 minutes.
      expect(summary.duration_s).toBeLessThan(120);

      const prompt = `Classify as one of: ${labels.join(', ')}.\nText: {{ note }}\nLabel:`;
      const rehearsal = {
        ...job,
        prompt,
        service: { deployment: 'one-of-our-own' },
        output: { path: 'r.csv' },
      };
      const rehearsed = await work.call(['run', work.job(rehearsal), '--emulate']);
      expect(rehearsed.code, rehearsed.stderr).toBe(1);
      expect(work.records('r.emulated.csv').length).toBe(2);
      expect(JSON.parse(work.read('r.emulated.summary.json')).duration_s).toBeLessThan(120);
      task.meta.fault = { rows: 4, calls: service.requests.length };
    } finally {
      await service.close();
    }
  });
});
