import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { readSummary } from '../../src/report/read-summary.js';
import { summarise, summaryText, tallyOf } from '../../src/report/summary.js';
import { emptyTally, fold } from '../../src/report/tally.js';
import { anyEnded } from './outcomes.js';
import { parts } from './summary-parts.js';

const summary = summarise(parts);

describe('a summary that is read', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-summary-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const file = (text: string): string => {
    const path = join(folder, 'out.summary.json');
    writeFileSync(path, text);
    return path;
  };

  it('is the one that was written, its details on a line of their own', () => {
    const text = summaryText(summary);
    expect(text.split('\n').filter((line) => line.startsWith('  "details": {'))).toHaveLength(1);
    expect(readSummary(file(text))).toEqual(summary);
  });

  it('gives back the tally that it was made of', () => {
    fc.assert(
      fc.property(fc.array(anyEnded, { maxLength: 40 }), (ended) => {
        // Names that zod takes for its own are no names of a service.
        const tally = JSON.parse(JSON.stringify(fold(emptyTally(), ended)).replaceAll('__proto__', 'proto'));
        const read = readSummary(file(summaryText(summarise({ ...parts, tally, hasGold: true }))));
        expect(tallyOf(read)).toEqual(tally);
      }),
    );
  });

  it('of an earlier version has no details, and gives what can be known without them', () => {
    const { details: _, answers_invalid: __, answers_abstained: ___, ...before } = summary;
    const read = readSummary(file(JSON.stringify({ ...before, errors: { answer_not_json: 2, timeout: 1 } })));
    expect(tallyOf(read)).toMatchObject({
      rows: parts.tally.rows,
      usage: parts.tally.usage,
      invalid: { answer_not_json: 2 },
      latency: null,
    });
    expect(tallyOf(read).gold).toBeUndefined();
  });

  it.each([
    ['{', 'summary_unknown', 'is no summary of a run'],
    ['{"run": "x"}', 'summary_unknown', 'is no summary of a run: job: '],
    [
      summaryText(summary).replace('"total": 4,', '"total": 7,'),
      'summary_edited',
      'add up to 4, and rows.total is 7',
    ],
    [
      summaryText(summary).replace('{"v":1,', '{"v":2,'),
      'summary_version',
      'by another version of Promptmill',
    ],
  ])('is refused where it is none: %#', (text, code, message) => {
    expect(() => readSummary(file(text))).toThrow(
      expect.objectContaining({ code, message: expect.stringContaining(message), hint: expect.any(String) }),
    );
  });

  it('that is not there is named', () => {
    expect(() => readSummary(join(folder, 'none.summary.json'))).toThrow(
      expect.objectContaining({ code: 'summary_missing' }),
    );
    expect(() => readSummary(folder)).toThrow(expect.objectContaining({ code: 'summary_unreadable' }));
  });
});
