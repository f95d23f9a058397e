import { appendFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import type iconv from 'iconv-lite';
import { beforeEach, describe, expect, it } from 'vitest';
import { scriptedPlace } from '../support/scripted-place.js';
import { oneStore } from '../support/stores.js';

const library: typeof iconv = createRequire(import.meta.url)('iconv-lite');

const place = scriptedPlace();
const store = oneStore();
const call = (...args: string[]) =>
  place.work.call(args, { PROMPTMILL_BASE_URL: place.service.url, ...store() });

/** Each with a letter that has the byte of a line end in it, where the encoding has such. */
const ENCODINGS: readonly (readonly [name: string, letter: string])[] = [
  ['utf-8', 'ਊ'],
  ['utf-16le', 'ਊ'],
  ['utf-16le', 'ഊ'],
  ['utf-16be', 'ਊ'],
  ['utf-16be', 'ഊ'],
  ['windows-1252', 'é'],
  ['shift_jis', 'あ'],
];
const ENDS = { LF: '\n', CRLF: '\r\n', CR: '\r' } as const;
const CASES = ENCODINGS.flatMap(([encoding, letter]) =>
  (['LF', 'CRLF', 'CR'] as const).map((end) => [encoding, letter, end] as const),
);

// Packed bytes are unpacked before anything is read of their text, so one kind of line end says it.
describe.each([
  [false, CASES],
  [true, CASES.filter(([, , end]) => end === 'LF')],
] as const)('an input that grew, packed: %s', (packed, cases) => {
  const file = packed ? 'in.csv.gz' : 'in.csv';
  beforeEach(() => {
    place.script = () => ({});
  });

  it.each(cases)(
    'fault 93: %s that ends in %s, with %s: its last row is whole only with a line end',
    async (encoding, letter, name) => {
      const end = ENDS[name];
      const bytes = (text: string, isFirst = false): Buffer => {
        const encoded = library.encode(text, encoding, { addBOM: isFirst && encoding.startsWith('utf-16') });
        return packed ? gzipSync(encoded) : encoded;
      };
      const path = place.work.path(file);
      const rows = (...notes: string[]): string => notes.map((note, i) => `${i + 1},${note}`).join(end);
      const job = (output: string): string =>
        place.work.job(
          {
            input: { path: file, encoding },
            prompt: 'say {{ note }}',
            output: { path: output },
            report: false,
          },
          `${output}.yaml`,
        );
      const run = async (output: string, ...flags: string[]) => await call('run', job(output), ...flags);

      const begun = `id,note${end}${rows(letter, letter)}`;
      writeFileSync(path, bytes(begun, true));
      expect((await run('cut.csv')).code).toBe(0);
      appendFileSync(path, bytes(`x${end}3,c${end}`));
      const cut = await run('cut.csv', '--extend');
      expect([cut.code, cut.stderr]).toEqual([
        2,
        expect.stringContaining('had no end when cut.csv was made'),
      ]);

      // The end comes with what is appended.
      writeFileSync(path, bytes(begun, true));
      appendFileSync(path, bytes(`${end}3,c${end}`));
      const late = await run('cut.csv', '--extend');
      expect(late.code, late.stderr).toBe(0);

      writeFileSync(path, bytes(begun + end, true));
      expect((await run('whole.csv')).code).toBe(0);
      appendFileSync(path, bytes(`3,c${end}`));
      const whole = await run('whole.csv', '--extend');
      expect(whole.code, whole.stderr).toBe(0);
      for (const output of ['cut.csv', 'whole.csv'])
        expect(place.work.records(output).map(({ note }) => note)).toEqual([letter, letter, 'c']);
    },
  );
});
