import { describe, expect, it } from 'vitest';
import type { Parameters, Row } from '../../src/core/model.js';
import { type KeyRules, type RowKeys, rowKeys } from '../../src/prompt/reuse-keys.js';

const RULES: KeyRules = {
  dedupe: true,
  onlyNew: true,
  places: true,
  idOf: ({ fields }) => fields.get('id') ?? null,
  parameters: { temperature: 0, max_tokens: 5 },
  service: ['https://example.net/openai', 'a-deployment', '2023-09-15-preview', 'deployments'],
};

function keys(
  prompt: string,
  own: Parameters | null = null,
  rules: Partial<KeyRules> = {},
  id: string | number = 'a',
): RowKeys {
  const row: Row = { number: 1, line: 2, fields: new Map([['id', id]]), bytes: 10 };
  return rowKeys({ ...RULES, ...rules })(row, prompt, own);
}

describe('the key of a request', () => {
  it('is equal where all that would be sent is equal, wherever the parameters come from', () => {
    const same = keys('p').request;
    expect(same).toMatch(/^[\w-]{16}$/);
    expect(keys('p', { max_tokens: 5 }, {}, 'b').request).toBe(same);
    expect(keys('p', { temperature: 0 }, { parameters: { max_tokens: 5, temperature: 1 } }).request).toBe(
      same,
    );
  });

  it('differs where anything of it differs', () => {
    const all = [
      keys('p'),
      keys('p '),
      keys('p', { max_tokens: 6 }),
      keys('p', { max_tokens: null }),
      keys('p', { suffix: 'end' }),
      keys('p', null, { service: null }),
      // Prompt and parameters cannot be taken for each other.
      keys('["max_tokens",5]'),
    ];
    expect(new Set(all.map(({ request }) => request)).size).toBe(all.length);
  });

  it('is there only at temperature 0, which is not what the service takes by itself', () => {
    for (const temperature of [1, 0.1, null]) expect(keys('p', { temperature }).request).toBeNull();
    expect(keys('p', null, { parameters: {} }).request).toBeNull();
    expect(keys('p', null, { dedupe: false }).request).toBeNull();
  });
});

describe('the key of a row', () => {
  it('is made of its id and its request, at any temperature', () => {
    const warm = { temperature: 1 };
    expect(keys('p', warm).row).toBe(keys('p', warm).row);
    const all = [keys('p'), keys('p', warm), keys('q'), keys('p', null, {}, 'b'), keys('p', null, {}, 1)];
    expect(keys('p', null, {}, '1').row).not.toBe(keys('p', null, {}, 1).row);
    expect(new Set(all.map(({ row }) => row)).size).toBe(all.length);
    expect(keys('p', null, { onlyNew: false }).row).toBeNull();
  });

  it('is made of its line and its request for runs over the same input, whatever its id', () => {
    const { place, row } = keys('p');
    expect(keys('p', null, {}, 'b').place).toBe(place);
    const all = [
      row,
      place,
      keys('q').place,
      keys('p', { temperature: 1 }).place,
      keys('p', null, {}, 2).row,
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(keys('p', null, { places: false }).place).toBeNull();
  });
});
