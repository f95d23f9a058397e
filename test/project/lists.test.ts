import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { INPUT_ENDINGS } from '../../src/source/format.js';
import { QUEUE_FORMS } from '../../src/store/open.js';

const read = (path: string): string => readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
const words = (list: string): string[] => list.split(/, | or /);

/** What is in code marks at the beginning of the rows of a page's tables. */
const firstCells = (path: string): string[] =>
  [...read(path).matchAll(/^\| (`[^|]+`)/gm)].flatMap((row) =>
    [...(row[1] ?? '').matchAll(/`([^`]+)`/g)].map((code) => code[1] ?? ''),
  );

it('docs/operations.md has a row for every store', () => {
  expect(firstCells('docs/operations.md')).toEqual(expect.arrayContaining(words(QUEUE_FORMS)));
});

it('docs/input.md has a row for the endings of every input format', () => {
  expect(firstCells('docs/input.md')).toEqual(expect.arrayContaining(INPUT_ENDINGS));
});
