import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { scoresOf } from '../../src/account/scores.js';
import { exampleTexts } from '../../src/render/example-texts.js';

const folder = mkdtempSync(join(tmpdir(), 'promptmill-example-texts-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const scores = (...examples: number[]) => ({
  ...scoresOf({ rows: 9, right: 0, unanswered: 0 }),
  confusions: [{ gold: 'a', answer: 'b', rows: 9, examples }],
});

function output(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

test('the columns of the prompt are told, in its order, on one line, and clipped', async () => {
  const path = output(
    'out.csv',
    `id,text,Review Text,input_text,status,answer\n1,b,"Fits\n  well",mine,completed,b\n2,b,'=1+1,,completed,b\n3,b,${'x'.repeat(300)},y,completed,b\n`,
  );
  const prompt =
    '{{! a/b }}{{ Review Text }} {{#text}}({{& text }}){{/text}} {{ unknown }} {{{Review Text}}}';
  expect(await exampleTexts(path, scores(1, 2, 3), prompt)).toEqual({
    1: 'Fits well · mine',
    2: '=1+1',
    3: `${'x'.repeat(199)}…`,
  });
});

test('values of JSON are found by the beginning of their path, and prompts of rows in their column', async () => {
  const lines = [{ order: { total: 3 }, prompt: 'How much?' }, {}, { prompt: 'Why?' }];
  const path = output(
    'out.jsonl',
    lines.map((input, i) => `${JSON.stringify({ row: i + 1, input, status: 'completed' })}\n`).join(''),
  );
  expect(await exampleTexts(path, scores(1), '{{ order.total }}')).toEqual({ 1: '{"total":3}' });
  expect(await exampleTexts(path, scores(1, 2, 3), null)).toEqual({ 1: 'How much?', 3: 'Why?' });
});

test('an output without these columns has no texts, and is read no further than the last example', async () => {
  const path = output('lean.csv', 'id,status,answer\n1,completed,b\n2,completed,b\n"no end');
  expect(await exampleTexts(path, scores(2), '{{ review }}')).toEqual({});
  expect(await exampleTexts(join(folder, 'gone.csv'), scores(), '{{ review }}')).toEqual({});
  expect(await exampleTexts(join(folder, 'gone.csv'), undefined, null)).toEqual({});
});
