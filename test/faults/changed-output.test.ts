import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { writtenOf } from '../../src/output/written.js';
import { scriptedPlace } from '../support/scripted-place.js';
import { completionBody } from '../support/scripted-service.js';
import { oneStore } from '../support/stores.js';
import { changeSummary } from '../support/written.js';

const ROWS = 24;
const FAILED = [3, 9, 20];

const place = scriptedPlace();
const store = oneStore();
const call = (...args: string[]) =>
  place.work.call(args, { PROMPTMILL_BASE_URL: place.service.url, ...store() });

/** The lines of an output, to be changed by whoever has it. */
interface Lines {
  readonly header: readonly string[];
  readonly rows: readonly string[];
}
type Change = (lines: Lines) => string;
const text = ({ header, rows }: Lines, end = '\n'): string =>
  [...header, ...rows].map((line) => line + end).join('');

const CHANGES: readonly (readonly [what: string, said: RegExp, change: Change])[] = [
  ['sorted', /the same rows are in another order/, (l) => text({ ...l, rows: l.rows.toSorted() })],
  [
    'reversed',
    /the same rows are in another order \(rows 1 to 24\)/,
    (l) => text({ ...l, rows: l.rows.toReversed() }),
  ],
  [
    'with two rows swapped',
    /the same rows are in another order \(rows 5 to 6\)/,
    (l) =>
      text({ ...l, rows: [...l.rows.slice(0, 4), l.rows[5] ?? '', l.rows[4] ?? '', ...l.rows.slice(6)] }),
  ],
  [
    'with a row doubled over another',
    /: row 7 was changed/,
    (l) => text({ ...l, rows: l.rows.with(6, l.rows[7] ?? '') }),
  ],
  ['filtered', /it has 20 rows fewer than were written/, (l) => text({ ...l, rows: l.rows.slice(0, 4) })],
  [
    'with a row added',
    /it has 1 row more than were written/,
    (l) => text({ ...l, rows: [...l.rows, l.rows[0] ?? ''] }),
  ],
  [
    'saved by a spreadsheet',
    /: a byte-order mark was put in front; its lines end in CR LF/,
    (l) => `\ufeff${text(l, '\r\n')}`,
  ],
  ['without its last line end', /: the end of its last line is missing/, (l) => text(l).slice(0, -1)],
  [
    'with cells edited',
    /: row 11 was changed/,
    (l) => text({ ...l, rows: l.rows.with(10, (l.rows[10] ?? '').replace('positive', 'negative')) }),
  ],
  ['with a blank line', /: it has 1 blank line/, (l) => `${text(l)}\n`],
];

describe.each(['out.csv', 'out.jsonl', 'out.csv.gz'])('a finished %s that was changed', (output) => {
  const isPacked = output.endsWith('.gz');
  const isCsv = output.includes('.csv');
  const read = (): Buffer => readFileSync(place.work.path(output));
  const write = (content: string): void =>
    writeFileSync(place.work.path(output), isPacked ? gzipSync(content) : content);
  const lines = (): Lines => {
    const all = (isPacked ? gunzipSync(read()) : read()).toString().split('\n').slice(0, -1);
    return { header: isCsv ? all.slice(0, 1) : [], rows: all.slice(isCsv ? 1 : 0) };
  };

  beforeEach(async () => {
    const failing = new Set(FAILED);
    place.script = ({ prompt }) => {
      const row = Number(/(\d+)$/.exec(prompt)?.[1]);
      if (failing.delete(row)) return { status: 400, json: { error: { message: 'no', code: 'bad' } } };
      return { json: completionBody({ text: ' positive' }) };
    };
    // What rows could be known by is left out.
    place.work.job({
      input: { path: place.work.rows(ROWS) },
      answer: { labels: ['positive', 'negative'] },
      output: {
        path: output,
        columns: isCsv
          ? ['id', 'status', 'answer', 'text', 'error_code']
          : ['input', 'status', 'answer', 'text', 'error'],
      },
      report: false,
    });
    const ended = await call('run', 'job.yaml');
    expect(ended.code, ended.stderr).toBe(1);
    place.work.write('review.csv', 'row,answer\n1,negative\n');
  });

  /** Commands that replace the file or add to it. */
  const WRITERS = {
    retry: () => call('retry', output),
    'run --retry-failed': () => call('run', 'job.yaml', '--retry-failed'),
    'run --extend': () => {
      appendFileSync(place.work.path('rows.csv'), '99,row 99\n');
      return call('run', 'job.yaml', '--extend');
    },
    'merge-review': () => call('merge-review', output, 'review.csv'),
  };

  it.each(CHANGES)(
    'faults 91 and 92: %s is replaced by no command, which says what is different',
    async (_, said, change) => {
      write(change(lines()));
      const [before, summary, calls] = [
        read(),
        place.work.read('out.summary.json'),
        place.service.requests.length,
      ];
      for (const [name, run] of Object.entries(WRITERS)) {
        const { code, stderr } = await run();
        expect([code, stderr], name).toEqual([2, expect.stringMatching(said)]);
        expect(stderr, name).toContain(`${output} is not as Promptmill wrote it: `);
        expect(stderr, name).toContain('Put the file back as it was');
      }
      expect(read()).toEqual(before);
      expect(place.work.read('out.summary.json')).toBe(summary);
      expect(place.service.requests).toHaveLength(calls);
    },
  );

  it('faults 91 and 92: is read all the same, and report, score and compare say so', async () => {
    place.work.write('kept/out.csv', '');
    write(text({ ...lines(), rows: lines().rows.toReversed() }));
    const said = `${output} is not as Promptmill wrote it: the same rows are in another order`;
    place.work.write('gold.csv', 'row,answer\n1,positive\n');
    for (const args of [
      ['report', output, '--json'],
      ['score', output, '--gold', 'gold.csv', '--json'],
      ['compare', output, output, '--json'],
    ]) {
      const { code, stdout, stderr } = await call(...args);
      expect(code, stderr).toBe(0);
      expect(stderr).toContain(`warning: ${said}`);
      expect(stdout).toContain(said);
    }
  });

  it('fault 94: the commands follow one another, and each says how the output is known', async () => {
    for (const [name, run] of [...Object.entries(WRITERS), ...Object.entries(WRITERS)]) {
      const { code, stderr } = await run();
      // A finished output without failed rows is not run again.
      if (name !== 'run --retry-failed') expect(code, `${name}: ${stderr}`).toBe(0);
      expect(place.work.json('out.summary.json')['details']).toMatchObject({
        written: await writtenOf(place.work.path(output)),
      });
    }
    expect(lines().rows).toHaveLength(ROWS + 2);
  });

  it('fault 95: a summary that was edited, is of another output or of another version is named', async () => {
    const summary = place.work.read('out.summary.json');
    const harms: readonly (readonly [() => void, string])[] = [
      [
        () =>
          place.work.write(
            'out.summary.json',
            summary.replace('"failed": 3', '"failed": 2').replace('"completed": 21', '"completed": 22'),
          ),
        'out.summary.json was edited',
      ],
      [
        () => place.work.write('out.summary.json', summary.replace('"details": {"v":1', '"details": {"v":2')),
        'out.summary.json was written by another version',
      ],
      [
        () => changeSummary(place.work.path('out.summary.json'), { output: 'x.csv' }),
        `out.summary.json is the summary of x.csv, and not of ${output}`,
      ],
      [() => place.work.write('out.summary.json', '{}'), 'out.summary.json is no summary of a run'],
    ];
    const before = read();
    for (const [harm, said] of harms) {
      place.work.write('out.summary.json', summary);
      harm();
      for (const [name, run] of Object.entries(WRITERS)) {
        if (name === 'run --retry-failed' && said.includes('x.csv')) continue;
        const { code, stderr } = await run();
        expect([code, stderr], name).toEqual([2, expect.stringContaining(said)]);
      }
      expect(read()).toEqual(before);
    }
  });
});
