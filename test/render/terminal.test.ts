import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';
import { section } from '../../src/render/document.js';
import { renderTerminal } from '../../src/render/terminal.js';
import { cells } from '../../src/render/terminal-text.js';
import { HOSTILE, sampleDocument } from './documents.js';

const shown = (word: string, width: number, color = false): string =>
  renderTerminal(sampleDocument(word), { width, color });

it('a document has its titles beside its lines, aligned', () => {
  expect(shown('x', 80)).toBe(`\
job x, deployment

Strong x

Then x
  promptmill retry x

answers         good x  9   75.0 %  ██████████████████████████████
                bad x   3   25.0 %  ██████████
quota           mean x  20 of 100  20.0 %
                12 sent, cost 0.50
errors          timeout x  3  it took long x
                and 1 more, in --json
table           name  rows
                a x     12
                  noted x
                b        3
matrix          gold \\ answer  yes x  no
                yes x              5   1
                no                 0   7
code            │ one x
                │ \\u{9}two \`\`\`
files           output  x
`);
});

it('titles stand above their lines where it is narrow, or the document is wide', () => {
  expect(shown('x', 50)).toContain(
    '\nerrors\n  timeout x  3  it took long x\n  and 1 more, in --json\ntable\n  name  rows\n',
  );
  const wide = renderTerminal({ ...sampleDocument('x'), isWide: true }, { width: 80, color: false });
  expect(wide).toContain('\n\nTable\n'.toLowerCase());
  expect(wide).toContain('\nname  rows\na x     12\n  noted x\nb        3\n');
});

it('no figure of a table is cut: where its columns have no room, each row says what is what', () => {
  const columns = [{ name: '' }, { name: 'a.csv', isNumber: true }, { name: 'b.csv', isNumber: true }];
  const rows = [{ cells: ['accuracy', '93.2 % (91.0 % to 95.1 %)', '89.4 % (87.0 % to 91.6 %)'] }];
  const document = {
    ...{ title: 't', lead: [], rest: 'in --json' },
    sections: [section('figures', 'Figures', [{ kind: 'table' as const, caption: 'c', columns, rows }])],
  };
  expect(renderTerminal(document, { width: 76, color: false })).toBe(
    `figures         accuracy
                  a.csv 93.2 % (91.0 % to 95.1 %),
                  b.csv 89.4 % (87.0 % to 91.6 %)
`,
  );
});

it('a matrix that is too wide is a list of what is mixed up', () => {
  const text = shown('a name of one line', 46);
  expect(text).toContain('  1  yes a name of one line → no\n');
  expect(text).not.toContain('gold \\ answer');
});

it.each([50, 80, 120])('nothing but commands and names of files is wider than %i columns', (width) => {
  for (const word of ['x'.repeat(200), '好 '.repeat(90), 'many words '.repeat(30)]) {
    const lines = shown(word, width).split('\n');
    const tooWide = lines.filter((line) => !/^ *promptmill|output/.test(line) && cells(line) > width);
    // One word that is longer than a line cannot be broken.
    if (word.includes(' ')) expect(tooWide).toEqual([]);
    else expect(tooWide.filter((line) => !/^(job|Strong|Then|x+$)/.test(line))).toEqual([]);
  }
});

it('colours change nothing but colours', () => {
  const colored = shown('x', 90, true);
  expect(colored).not.toBe(shown('x', 90));
  expect(stripVTControlCharacters(colored)).toBe(shown('x', 90));
});

it('fault 54: no text reaches the terminal as an escape code, or reorders what is read', () => {
  for (const width of [60, 400])
    expect(shown(HOSTILE, width).replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Cs}\u2028]/u);
});
