import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { emptyTally, fold } from '../../src/account/tally.js';
import { recordOptions } from '../../src/config/settings.js';
import type { Outcome } from '../../src/core/model.js';
import { type OutputRecord, outputAt, readOutput } from '../../src/output/reader.js';
import { rowsOf, settingsFor } from '../resume/run-files.js';
import { completed, failed } from './records.js';

/** A CSV has columns for the categories of the service's documentation, and for no others. */
const filters = { prompt: { hate: { filtered: false, severity: 'safe' } }, completion: null };
const said = (text: string, more: object = {}): Outcome => ({
  ...{ ...completed, filters, ...more },
  completion: { ...completed.completion, text },
});
const blocked = { code: 'content_filter', message: 'blocked' };
const cut = {
  ...completed,
  filters,
  status: 'filtered' as const,
  error: blocked,
  completion: { ...completed.completion, text: 'yes' },
};
const filtered = { ...completed, filters, status: 'filtered' as const, completion: null, error: blocked };

/** What each kind of answer has of texts. */
const JOBS: readonly (readonly [kind: string, answer: object | undefined, texts: readonly string[]])[] = [
  ['labels', { labels: ['yes', '=no'], gold: 'note' }, ['yes', '=no', 'maybe']],
  ['several labels', { labels: ['yes', '=no'], multiple: true, gold: 'note' }, ['yes, =no', 'none', 'maybe']],
  ['a number', { number: { min: 0 }, on_invalid: { ask_again: 1 } }, ['7', '1.50', 'many']],
  ['JSON', { json: { type: 'object', properties: { n: { type: 'number' } } } }, ['{"n":1.5}', '{"n":"x"}']],
  ['JSON that may be null', { json: { type: ['string', 'null'] } }, ['null', '"a"', '7']],
  ['free text', undefined, ['=1+1', ' two\nlines ']],
];

describe('the records of an output', () => {
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-reader-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  for (const format of ['csv', 'jsonl']) {
    it.each(JOBS)(`say in ${format} all that was counted of their rows: %s`, async (_, answer, texts) => {
      const path = join(folder, `out.${format}`);
      const settings = settingsFor(path, answer === undefined ? {} : { answer });
      const outcomes = [
        ...texts.map((text) => said(text)),
        ...(answer !== undefined && 'on_invalid' in answer
          ? [said('8', { answer_source: 'asked_again', asked: 2 })]
          : []),
        ...[failed, filtered, cut, { status: 'skipped' } as const],
      ];
      const notes = ['yes', 'yes', '=no'];
      const rows = await rowsOf(
        settings,
        outcomes.map((outcome, i) => ({ outcome, note: notes[i] ?? '' })),
      );
      writeFileSync(path, rows.text);
      const records: OutputRecord[] = [];
      for await (const batch of readOutput(outputAt(path), recordOptions(settings))) records.push(...batch);
      expect(records.map((record) => record.status)).toEqual(outcomes.map(({ status }) => status));
      expect(records.flatMap((record) => record.lacksForTally(settings.gold))).toEqual([]);
      const again = fold(
        emptyTally(),
        records.flatMap((record) => record.countedRow(settings.gold) ?? []),
      );
      expect(again).toEqual(fold(emptyTally(), rows.records));
      expect(records.map((record) => record.line)[0]).toBe(format === 'csv' ? 2 : 1);
    });
  }
});
