import type { Chart, Document } from '../../src/render/document.js';

/** Whatever is taken for markup, or obeyed by a terminal, or reorders or hides what is read. */
export const HOSTILE =
  '<img src=x onerror="a()"> [x](javascript:1) | **b** `c` \u001b]0;owned\u0007\u009b31m\r\b\u202egnirts\u2028\ud800\u200b';

const CHART: Chart = {
  id: 'speed',
  title: 'Speed',
  description: 'Rows in a second.',
  x: { title: 'seconds', values: [0, 1, 2], texts: ['0 s', '1 s', '2 s'] },
  y: { title: 'rows' },
  series: [
    { name: 'failed', kind: 'failed', values: [0, 1, null] },
    { name: 'others', kind: 'first', values: [1234.5, 20, 30], texts: ['many', 'some', 'few'] },
  ],
  limit: 1_000,
};

/** A document with a block of each kind. @param word is in each text of it */
export function sampleDocument(word: string): Document {
  const share = (name: string, rows: string, fraction: number) => ({
    name: `${name} ${word}`,
    value: rows,
    percent: `${(100 * fraction).toFixed(1)} %`,
    fraction,
  });
  const plain = (name: string, value: string) => ({ name, value, percent: null, fraction: null });
  return {
    title: `Title ${word}`,
    lead: [
      { blocks: [{ kind: 'list', items: [`job ${word}`, 'deployment'] }] },
      { tone: 'warn', blocks: [{ kind: 'text', text: `Strong ${word}`, style: 'strong' }] },
      {
        tone: 'warn',
        blocks: [
          { kind: 'text', text: `Then ${word}` },
          { kind: 'command', text: `promptmill retry ${word}` },
        ],
      },
      {
        in: ['html'],
        blocks: [
          {
            kind: 'shares',
            parts: [
              ['completed', 3],
              ['failed', 1],
            ],
          },
        ],
      },
    ],
    sections: [
      {
        id: 'answers',
        title: 'Answers',
        chapter: 'both',
        blocks: [
          { kind: 'figures', areParts: true, rows: [share('good', '9', 0.75), share('bad', '3', 0.25)] },
        ],
      },
      {
        id: 'quota',
        title: 'Quota of the run',
        short: 'quota',
        chapter: 'both',
        blocks: [
          { kind: 'figures', rows: [share('mean', '20 of 100', 0.2)] },
          { kind: 'figures', said: 'by name', rows: [plain('sent', '12'), plain('cost', '0.50')] },
        ],
      },
      {
        id: 'errors',
        title: 'Errors',
        blocks: [
          {
            kind: 'figures',
            heads: ['Error', 'Rows'],
            most: 1,
            rows: [
              { ...plain(`timeout ${word}`, '3'), sample: `it took long ${word}`, advice: 'Wait.' },
              plain('other', '1,000'),
            ],
          },
        ],
      },
      {
        id: 'table',
        title: 'Table',
        blocks: [
          {
            kind: 'table',
            caption: 'A table',
            columns: [
              { name: 'name', most: 12 },
              { name: 'rows', isNumber: true },
            ],
            rows: [
              { cells: [`a ${word}`, '12'], note: { text: `noted ${word}`, tone: 'good' } },
              { cells: ['b', '3'] },
            ],
          },
        ],
      },
      {
        id: 'matrix',
        title: 'Matrix',
        blocks: [
          {
            kind: 'matrix',
            caption: 'A matrix',
            names: ['gold', 'answer'],
            down: [`yes ${word}`, 'no'],
            across: [`yes ${word}`, 'no'],
            counts: [
              [5, 1],
              [0, 7],
            ],
          },
        ],
      },
      { id: 'chart', title: 'Chart', blocks: [{ kind: 'chart', chart: CHART }] },
      { id: 'code', title: 'Code', blocks: [{ kind: 'code', text: `one ${word}\n\ttwo \`\`\`` }] },
      {
        id: 'files',
        title: 'Files',
        in: ['terminal'],
        blocks: [{ kind: 'figures', form: 'facts', rows: [plain('output', word)] }],
      },
      {
        id: 'rows',
        title: 'Rows',
        blocks: [
          {
            kind: 'rows',
            caption: 'Some rows',
            columns: [
              { name: 'row', isNumber: true, isRow: true },
              { name: 'outcome', isOutcome: true, choices: [{ value: 'failed', rows: 1 }] },
              { name: 'text', within: 'Values', isNamed: true },
              { name: 'never', within: 'Values', isNamed: true },
              { name: `code ${word}`, within: 'Values', isNamed: true },
            ],
            rows: Array.from({ length: 12 }, (_, i) => ({
              cells: [String(i + 1), i === 11 ? 'failed' : 'answered', `cell ${i + 1} ${word}`, '', word],
              isToLookAt: i === 11,
            })),
          },
        ],
      },
      {
        id: 'nothing',
        title: 'Nothing',
        blocks: [
          { kind: 'figures', rows: [] },
          { kind: 'text', text: '' },
        ],
      },
    ],
    chapters: [{ id: 'both', title: 'Both' }],
    rest: 'in --json',
    footer: `The end ${word}`,
  };
}
