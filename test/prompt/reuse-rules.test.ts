import { describe, expect, it } from 'vitest';
import { UsageError } from '../../src/core/errors.js';
import type { Json, Row } from '../../src/core/model.js';
import { checkReuse, idReader } from '../../src/prompt/reuse-keys.js';
import { csv } from '../../src/source/csv.js';
import { jsonl } from '../../src/source/jsonl.js';

const CSV = { name: 'rows.csv', format: csv, columns: ['sku', 'id', 'temperature'] } as const;
const DEDUPE = { dedupe: true, onlyNew: false, id: null };

const row = (fields: Record<string, Json>): Row => ({
  number: 1,
  line: 2,
  fields: new Map(Object.entries(fields)),
  bytes: 10,
});

describe('input.dedupe', () => {
  it('needs a temperature of 0 in the job, or one that rows can set', () => {
    expect(() => checkReuse(DEDUPE, { temperature: 0.7 }, [], CSV)).toThrow(UsageError);
    expect(() => checkReuse(DEDUPE, { temperature: 0.7 }, [], CSV)).toThrow(
      /input\.dedupe is true, and parameters\.temperature is 0\.7: only at 0 /,
    );
    expect(() => checkReuse(DEDUPE, {}, ['max_tokens'], CSV)).toThrow('for which the service takes 1');
    expect(() => checkReuse(DEDUPE, { temperature: null }, [], CSV)).toThrow('for which the service takes 1');
    checkReuse(DEDUPE, { temperature: 0 }, [], CSV);
    checkReuse(DEDUPE, {}, ['temperature'], CSV);
    checkReuse(DEDUPE, {}, [], { name: 'rows.jsonl', format: jsonl, columns: ['custom_id', 'body'] });
    checkReuse({ ...DEDUPE, dedupe: false }, {}, [], CSV);
  });
});

describe('input.id', () => {
  it('must be a column of the input', () => {
    const reuse = { dedupe: false, onlyNew: true, id: 'skuu' };
    expect(() => checkReuse(reuse, {}, [], CSV)).toThrow(/input\.id names "skuu".*did you mean "sku"/);
    checkReuse({ ...reuse, id: 'id' }, {}, [], CSV);
  });

  it('is by default the first column, and of JSONL custom_id, else id, else nothing', () => {
    const fields = { sku: 's', id: 'i' };
    expect(idReader('id', CSV)(row(fields))).toBe('i');
    expect(idReader(null, CSV)(row(fields))).toBe('s');
    const ofJsonl = idReader(null, { format: jsonl, columns: ['sku', 'id', 'custom_id'] });
    expect(ofJsonl(row({ ...fields, custom_id: 7 }))).toBe(7);
    expect(ofJsonl(row(fields))).toBe('i');
    expect(ofJsonl(row({ sku: 's' }))).toBeNull();
  });
});
