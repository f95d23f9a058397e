import { count } from '../core/figures.js';
import { asStarted } from '../core/started.js';
import {
  type Block,
  type Document,
  type Figure,
  type Figures,
  type Matrix,
  mixedUp,
  type Section,
  shownIn,
  type Table,
} from './document.js';
import {
  cells,
  clip,
  escapeControls,
  flow,
  type Paint,
  padEnd,
  padStart,
  painter,
  words,
} from './terminal-text.js';

export interface TerminalOptions {
  /** Columns; below 50 the text is hard to read. */
  readonly width: number;
  readonly color: boolean;
}

/** From this width on titles stand beside their lines, below it above them. */
const TITLES_BESIDE = 72;
/** `finish reasons` and two spaces. */
const TITLE = 16;
const GAP = '  ';
const SEPARATOR = ', ';
/** With more names, a matrix lists the most frequent mix-ups instead. */
const MOST_NAMES = 8;
const MOST_PAIRS = 15;
/** In cells. */
const NAME = 20;
const BAR = 40;
/** In cells; a shorter message says nothing. */
const LEAST_SAMPLE = 20;
const MOST_CODE_LINES = 30;
const MOST_NOTE_LINES = 6;

const COLOURS = { good: 'green', warn: 'yellow', bad: 'yellow' } as const;

/** Commands are shown as they can be typed. */
export const show = (document: Document, stream: NodeJS.WriteStream, before = ''): boolean =>
  stream.write(before + asStarted(renderTerminal(document, optionsOf(stream))));

export const optionsOf = ({ columns, isTTY }: Partial<NodeJS.WriteStream>): TerminalOptions => ({
  width: columns ?? 100,
  color: isTTY === true && process.env['NO_COLOR'] === undefined,
});

/** Ends in a line feed. */
export function renderTerminal(document: Document, { width, color }: TerminalOptions): string {
  const { lead, sections, rest, isWide = false } = shownIn('terminal', document);
  const paint = painter(color);
  const room = isWide ? width : width - (width >= TITLES_BESIDE ? TITLE : 2);
  const linesOf = (blocks: readonly Block[], at: number): string[] =>
    blocks.flatMap((block) => blockLines(block, { width: at, paint, rest }));
  const titled = ({ title, short = title.toLowerCase(), blocks }: Section, i: number): string[] => {
    const body = linesOf(blocks, room);
    if (isWide) return [...(i === 0 ? [] : ['']), ...(short === '' ? [] : [paint('bold', short)]), ...body];
    if (width >= TITLES_BESIDE)
      return body.map((line, at) => paint('dim', padEnd(at === 0 ? short : '', TITLE)) + line);
    const head = short === '' || body.length === 0 ? [] : [paint('dim', short)];
    return [...head, ...body.map((line) => `  ${line}`)];
  };
  const parts = [...lead.map(({ blocks }) => linesOf(blocks, width)), sections.flatMap(titled)];
  return `${parts.flatMap((lines, i) => (i === 0 || lines.length === 0 ? lines : ['', ...lines])).join('\n')}\n`;
}

interface Room {
  readonly width: number;
  readonly paint: Paint;
  readonly rest: string;
}

function blockLines(block: Block, room: Room): string[] {
  const { width, paint } = room;
  switch (block.kind) {
    case 'text': {
      const { text, style, isWhole = false, isIndented = false } = block;
      const indent = isIndented ? '  ' : '';
      const lines = isWhole ? [escapeControls(text)] : words(escapeControls(text), width - indent.length);
      return lines.map((line) => paintText(indent + line, style, paint));
    }
    case 'list': {
      const { items, isLines = false, most = items.length } = block;
      const more = items.length > most ? [`and ${count(items.length - most)} more`] : [];
      const shown = items.slice(0, most).map(escapeControls);
      if (isLines) return [...shown, ...more].map((item) => clip(`  ${item}`, width));
      return flow([...shown.map((item) => clip(item, width - 1)), ...more], SEPARATOR, width);
    }
    case 'command':
      return [`  ${escapeControls(block.text)}`];
    case 'code': {
      const lines = block.text.split('\n');
      const isCut = block.isCut === true || lines.length > MOST_CODE_LINES;
      return [
        ...lines
          .slice(0, MOST_CODE_LINES)
          .map((line) => `│ ${clip(escapeControls(line), width - 2)}`.trimEnd()),
        ...(isCut ? [`… ${room.rest}`] : []),
      ];
    }
    case 'figures':
      return figureLines(block, room);
    case 'table':
      return tableLines(block, room);
    case 'matrix':
      return matrixLines(block, room);
    // Pictures, and rows, which need a search.
    default:
      return [];
  }
}

function paintText(line: string, style: 'strong' | 'muted' | 'warning' | undefined, paint: Paint): string {
  if (style === 'strong') return paint('bold', line);
  return style === 'warning' ? paint('yellow', line) : line;
}

const isCount = (text: string): boolean => /^[\d,]+$/.test(text);

function figureLines(figures: Figures, room: Room): string[] {
  const { rows, said, form, most = rows.length, areParts = false } = figures;
  const { width, paint } = room;
  if (said !== undefined) {
    const items = said === 'by name' ? rows.map(inWords) : said;
    return flow(items.map(escapeControls), SEPARATOR, width);
  }
  const shown = rows
    .slice(0, most)
    .map((row) => ({ ...row, name: escapeControls(row.name), value: escapeControls(row.value) }));
  const nameWidth = Math.min(Math.max(...shown.map(({ name }) => cells(name))), Math.floor(width / 2));
  const valueWidth = shown.every(({ value }) => isCount(value))
    ? Math.max(...shown.map(({ value }) => value.length))
    : 0;
  // File names and the like stay whole, to be copied.
  const left = form === 'facts' ? Number.POSITIVE_INFINITY : width - nameWidth - GAP.length;
  const lines = shown.flatMap((row) => {
    const [first = '', ...further] = besideName(row, valueWidth, left, areParts, paint);
    const name = clip(row.name, nameWidth);
    return [
      padEnd(name, nameWidth) + GAP + first,
      ...further.map((line) => padEnd('', nameWidth) + GAP + line),
    ];
  });
  return [...lines.map((line) => line.trimEnd()), ...moreLines(rows.length - shown.length, room)];
}

/** `951 stop`, `p50 413 ms` */
const inWords = ({ name, value }: Figure): string =>
  isCount(value) ? `${value} ${name}` : `${name} ${value}`;

/** The value with its share and bar, or with a message if there is room; a long value takes several lines. */
function besideName(
  { value, percent, fraction, sample = '' }: Figure,
  valueWidth: number,
  width: number,
  hasBar: boolean,
  paint: Paint,
): string[] {
  const padded = padStart(value, valueWidth);
  if (percent !== null) {
    const share = hasBar ? percent.padStart('100.0 %'.length) : percent;
    const room = Math.max(0, Math.min(BAR, width - cells(padded) - 2 * GAP.length - '100.0 %'.length));
    const bar = hasBar ? paint('cyan', '█'.repeat(Math.round((fraction ?? 0) * room))) : '';
    return [`${padded}${GAP}${share}${GAP}${bar}`];
  }
  const room = width - cells(padded) - GAP.length;
  if (sample !== '' && room >= LEAST_SAMPLE) return [`${padded}${GAP}${clip(escapeControls(sample), room)}`];
  return valueWidth > 0 ? [padded] : words(value, width);
}

function tableLines({ columns, rows, most = rows.length }: Table, room: Room): string[] {
  const { width, paint } = room;
  const shown = rows.slice(0, most);
  const cut = (cell: string, i: number): string => clip(escapeControls(cell), columns[i]?.most ?? width);
  const head = columns.map(({ name }) => name);
  const body = shown.map((row) => row.cells.map(cut));
  const whole = aligned(
    [head, ...body],
    columns.map(({ isNumber }) => isNumber === true),
  );
  // A figure is never cut: if columns have no room, each row names its values.
  if (whole.some((line) => cells(line) > width) && columns.every(({ most }) => most === undefined))
    return [
      ...body.flatMap(([name = '', ...values]) => [
        clip(name, width),
        ...flow(
          values.flatMap((value, i) => (value === '' ? [] : [`${head[i + 1] ?? ''} ${value}`.trim()])),
          SEPARATOR,
          width - GAP.length,
        ).map((line) => GAP + line),
      ]),
      ...moreLines(rows.length - shown.length, room),
    ];
  const [first, ...lines] = whole.map((line) => clip(line, width));
  const notes = shown.map(({ note }) =>
    note === undefined
      ? []
      : noteLines(note.text, width - 2).map((line) => paint(COLOURS[note.tone], `  ${line}`)),
  );
  return [
    ...(first === undefined || first === '' ? [] : [paint('dim', first)]),
    ...lines.flatMap((line, i) => [line, ...(notes[i] ?? [])]),
    ...moreLines(rows.length - shown.length, room),
  ];
}

function noteLines(note: string, width: number): string[] {
  const all = clip(escapeControls(note), width * MOST_NOTE_LINES)
    .split(' ')
    .filter(Boolean);
  return flow(
    all.map((word) => clip(word, width)),
    ' ',
    width,
  ).slice(0, MOST_NOTE_LINES);
}

/** A grid, or if it has too many names or no room, the most frequent mix-ups. */
function matrixLines(matrix: Matrix, room: Room): string[] {
  const { names, down, across, counts } = matrix;
  const short = (name: string): string => clip(escapeControls(name), NAME);
  if (Math.max(down.length, across.length) <= MOST_NAMES) {
    const body = down.map((name, i) => [short(name), ...across.map((_, j) => count(counts[i]?.[j] ?? 0))]);
    const rows = [[names.join(' \\ '), ...across.map(short)], ...body];
    const lines = aligned(rows, [false, ...across.map(() => true)]);
    if (lines.every((line) => cells(line) <= room.width)) return lines;
  }
  const pairs = mixedUp(matrix);
  const shown = pairs.slice(0, MOST_PAIRS);
  const digits = Math.max(0, ...shown.map(({ rows }) => count(rows).length));
  return [
    ...shown.map(({ from, to, rows }) =>
      clip(
        `${count(rows).padStart(digits)}  ${clip(escapeControls(from), 2 * NAME)} → ${escapeControls(to)}`,
        room.width,
      ),
    ),
    ...moreLines(pairs.length - shown.length, room),
  ];
}

/** @param toTheRight per column */
function aligned(rows: readonly (readonly string[])[], toTheRight: readonly boolean[]): string[] {
  const widths = toTheRight.map((_, i) => Math.max(...rows.map((row) => cells(row[i] ?? ''))));
  return rows.map((row) =>
    row
      .map((cell, i) => (toTheRight[i] ? padStart : padEnd)(cell, widths[i] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

const moreLines = (more: number, { rest }: Room): string[] =>
  more > 0 ? [`and ${count(more)} more, ${rest}`] : [];
