import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { readSummary } from '../../src/account/read-summary.js';
import { type StoredSummary, summarise, summaryText } from '../../src/account/summary.js';
import { emptyTally, fold } from '../../src/account/tally.js';
import { anyEnded, completed } from './outcomes.js';
import { parts } from './summary-parts.js';

const written = { sha256: 'a', rows: 4, header: 1, records: 2, block: 1, places: [3] };
const stored = (made: StoredSummary): StoredSummary => ({ ...made, details: { ...made.details, written } });
const summary = stored(summarise(parts));

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
    expect(readSummary(file(text))).toMatchObject(summary);
  });

  it('gives back the tally that it was made of', () => {
    fc.assert(
      fc.property(fc.array(anyEnded, { maxLength: 40 }), (ended) => {
        const tally = JSON.parse(JSON.stringify(fold(emptyTally(), ended)));
        const read = readSummary(file(summaryText(stored(summarise({ ...parts, tally, hasGold: true })))));
        expect(read.details.tally).toEqual(tally);
      }),
    );
  });

  it('fault 9: keeps a label named __proto__', () => {
    const tally = fold(emptyTally(), [
      { ...completed('__proto__'), gold: { kind: 'label', label: '__proto__' } },
      { ...completed('toString'), gold: { kind: 'label', label: '__proto__' } },
    ]);
    const { answers, scores } = readSummary(
      file(summaryText(stored(summarise({ ...parts, tally, hasGold: true })))),
    );
    expect(JSON.stringify(answers)).toBe('{"__proto__":1,"toString":1}');
    expect(Object.keys(scores?.labels ?? {})).toEqual(['__proto__', 'toString']);
    expect(JSON.stringify(scores?.confusion)).toBe('{"__proto__":{"__proto__":1,"toString":1}}');
  });

  it.each([
    ['{', 'summary_unknown', 'is no summary of a run'],
    ['{"run": "x"}', 'summary_unknown', 'is no summary of a run: job: '],
    [summaryText(summary).replace('"total": 4,', '"total": 7,'), 'summary_edited', 'was edited'],
    [summaryText(summarise(parts)), 'summary_unknown', 'is no summary of a run: details.written: '],
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
