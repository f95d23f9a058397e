/**
 * A report independent of its medium: a function makes a document from data, and each medium has one
 * renderer. Texts come from anyone: the renderer makes them harmless, so reports pass them on unchanged.
 */
export interface Document {
  /** Of a page, and of a Markdown file. */
  readonly title: string;
  readonly lead: readonly LeadPart[];
  readonly sections: readonly Section[];
  /** Headings over sections on a page, in order; a section without one is its own part. */
  readonly chapters?: readonly Chapter[];
  /** Where the rest of a cut list is: `in --json`. */
  readonly rest: string;
  /** Last line of a page. @default none */
  readonly footer?: string;
  /** On a terminal, titles stand above tables that need its whole width. @default false */
  readonly isWide?: boolean;
}

export type Medium = 'terminal' | 'markdown' | 'html';

interface Shown {
  /** @default all */
  readonly in?: readonly Medium[];
}

type Tone = 'good' | 'warn' | 'bad';

/** A part with a tone states the result. */
export interface LeadPart extends Shown {
  readonly tone?: Tone;
  readonly blocks: readonly Block[];
}

export interface Chapter {
  readonly id: string;
  readonly title: string;
}

export interface Section extends Shown {
  /** Unique in its document, lower-case letters: for links. */
  readonly id: string;
  readonly title: string;
  /** Title on a terminal, up to 14 cells; empty continues the previous section. @default the title */
  readonly short?: string;
  /** @default none */
  readonly chapter?: string;
  readonly blocks: readonly Block[];
}

export type Block = Shown &
  (Text | List | Command | Code | Figures | Table | Matrix | Shares | ChartBlock | RowTable);

interface Text {
  readonly kind: 'text';
  readonly text: string;
  readonly style?: 'strong' | 'muted' | 'warning';
  /** One line on a terminal, however wide. @default false */
  readonly isWhole?: boolean;
  /** Belongs to the list before it. @default false */
  readonly isIndented?: boolean;
}

/** As a sentence, or one per line, cut if too long. */
interface List {
  readonly kind: 'list';
  readonly items: readonly string[];
  /** @default false */
  readonly isLines?: boolean;
  /** Items shown, followed by the number of the others. @default all */
  readonly most?: number;
}

/** To type; stays whole, to be copied. */
interface Command {
  readonly kind: 'command';
  readonly text: string;
}

interface Code {
  readonly kind: 'code';
  readonly text: string;
  /** Already cut. @default false */
  readonly isCut?: boolean;
}

export interface Figure {
  readonly name: string;
  readonly value: string;
  /** Share of its list's total, as text and from 0 to 1; `null` if it is no share. */
  readonly percent: string | null;
  readonly fraction: number | null;
  /** Message of an error; absent if unknown. */
  readonly sample?: string;
  /** Absent if nothing can be done. */
  readonly advice?: string;
  /** For large type: what the value alone would hide. */
  readonly note?: string;
}

export interface Figures {
  readonly kind: 'figures';
  readonly rows: readonly Figure[];
  /** Parts of a whole: bars are relative to the longest. @default false */
  readonly areParts?: boolean;
  /** On a page: large type, or names with long values. @default a table */
  readonly form?: 'large' | 'facts';
  /** One sentence on a terminal, in these words or by name and value. @default one line each */
  readonly said?: readonly string[] | 'by name';
  /** @default none */
  readonly heads?: readonly [name: string, value: string];
  /** Rows on a terminal. @default all */
  readonly most?: number;
}

interface Column {
  readonly name: string;
  /** Aligned right. @default false */
  readonly isNumber?: boolean;
  /** Texts of any length. @default false */
  readonly isLong?: boolean;
  /** Cells on a terminal. @default as many as needed */
  readonly most?: number;
}

export interface Table {
  readonly kind: 'table';
  /** Only for screen readers on a page, where a heading says it. */
  readonly caption: string;
  readonly columns: readonly Column[];
  readonly rows: readonly TableRow[];
  /** Rows shown, followed by the number of the others. @default all */
  readonly most?: number;
}

export interface TableRow {
  /** The first names the row. */
  readonly cells: readonly string[];
  readonly note?: { readonly text: string; readonly tone: Tone };
}

/** A grid of counts; the diagonal is agreement. */
export interface Matrix {
  readonly kind: 'matrix';
  readonly caption: string;
  readonly names: readonly [down: string, across: string];
  readonly down: readonly string[];
  readonly across: readonly string[];
  /** `counts[down][across]` */
  readonly counts: readonly (readonly number[])[];
}

interface Shares {
  readonly kind: 'shares';
  readonly parts: readonly (readonly [name: string, rows: number])[];
}

interface ChartBlock {
  readonly kind: 'chart';
  readonly chart: Chart;
}

/** Sortable, searchable and paged on a page. */
export interface RowTable {
  readonly kind: 'rows';
  readonly caption: string;
  /** If the rows here are a sample: of how many. @default the rows here */
  readonly records?: number;
  readonly columns: readonly RowColumn[];
  readonly rows: readonly { readonly cells: readonly string[]; readonly isToLookAt: boolean }[];
}

interface RowColumn extends Column {
  /** Numbers of the rows, each of them a link to its row. @default false */
  readonly isRow?: boolean;
  /** Marked with the colour of the outcome. @default false */
  readonly isOutcome?: boolean;
  /** Values that a reader can filter by, with their rows among all records. @default none */
  readonly choices?: readonly { readonly value: string; readonly rows: number }[];
  /** Column on a page that contains this cell with others. @default its own */
  readonly within?: string;
  /** With its name before it there. @default false */
  readonly isNamed?: boolean;
}

interface Axis {
  readonly title: string;
  /** @default from 0 to the largest value */
  readonly domain?: readonly [least: number, most: number];
  /** In d3-format. @default `~s`: 1.2k */
  readonly format?: string;
}

interface Series {
  readonly name: string;
  readonly kind: 'first' | 'second' | 'failed' | 'filtered';
  /** One per x value; null is a gap that the line spans. */
  readonly values: readonly (number | null)[];
  /** For the table of the chart's figures. @default the numbers */
  readonly texts?: readonly string[];
}

/** Titles and names may only be words of ours: parts of them become code when the chart is drawn. */
export interface Chart {
  /** Unique in its document. */
  readonly id: string;
  readonly title: string;
  readonly description: string;
  readonly x: Axis & {
    /** Of steps: where they begin. */
    readonly values: readonly number[];
    /** Of steps: where the last one ends. */
    readonly end?: number;
    readonly texts: readonly string[];
  };
  readonly y: Axis;
  readonly series: readonly Series[];
  /** `steps`: a value holds for its whole step. `areas`: stacked steps. @default 'lines' */
  readonly form?: 'lines' | 'steps' | 'areas';
  /** Draws the line x = y. @default false */
  readonly diagonal?: boolean;
  /** The allowed `y`, as a line across. @default none */
  readonly limit?: number | null;
}

/** Without blocks of other media, empty blocks, and sections left empty. */
export function shownIn(medium: Medium, { lead, sections, ...document }: Document): Document {
  const isShown = (one: Shown): boolean => one.in?.includes(medium) ?? true;
  const visible = <Part extends Shown & { readonly blocks: readonly Block[] }>(
    parts: readonly Part[],
  ): Part[] =>
    parts
      .filter(isShown)
      .map((part) => ({ ...part, blocks: part.blocks.filter((block) => isShown(block) && !isEmpty(block)) }))
      .filter(({ blocks }) => blocks.length > 0);
  return { ...document, lead: visible(lead), sections: visible(sections) };
}

function isEmpty(block: Block): boolean {
  if ('text' in block) return block.text === '';
  if ('rows' in block) return block.rows.length === 0;
  if ('items' in block) return block.items.length === 0;
  return 'down' in block && block.down.length === 0;
}

export const section = (
  id: string,
  title: string,
  blocks: readonly Block[],
  how: Omit<Section, 'id' | 'title' | 'blocks'> = {},
): Section => ({ id, title, blocks, ...how });

export const text = (content: string, how: Omit<Text, 'kind' | 'text'> & Shown = {}): Block => ({
  kind: 'text',
  text: content,
  ...how,
});

export const list = (items: readonly string[], how: Omit<List, 'kind' | 'items'> & Shown = {}): Block => ({
  kind: 'list',
  items,
  ...how,
});

export const command = (content: string): Block => ({ kind: 'command', text: content });

export const figures = (
  rows: readonly Figure[],
  how: Omit<Figures, 'kind' | 'rows'> & Shown = {},
): Block => ({ kind: 'figures', rows, ...how });

export const figure = (name: string, value: string): Figure => ({
  name,
  value,
  percent: null,
  fraction: null,
});

export const facts = (pairs: readonly (readonly [name: string, value: string])[]): Block =>
  figures(
    pairs.map(([name, value]) => figure(name, value)),
    { form: 'facts' },
  );

interface CountsByName {
  readonly [name: string]: { readonly [name: string]: number };
}

/** Own properties only: a label may be `constructor`. */
export const countsIn = (
  named: CountsByName,
  { down, across }: Pick<Matrix, 'down' | 'across'>,
): Matrix['counts'] =>
  down.map((from) => {
    const row = new Map(Object.hasOwn(named, from) ? Object.entries(named[from] ?? {}) : []);
    return across.map((to) => row.get(to) ?? 0);
  });

/** Counts off the diagonal, the most frequent first. */
export const mixedUp = ({ down, across, counts }: Matrix) =>
  down
    .flatMap((from, i) => across.map((to, j) => ({ from, to, rows: counts[i]?.[j] ?? 0 })))
    .filter(({ from, to, rows }) => rows > 0 && from !== to)
    .sort((a, b) => b.rows - a.rows);

/** The numbers of a chart, for those who need them exactly or cannot see it. */
export const chartTable = ({ title, x, series }: Chart): Table => ({
  kind: 'table',
  caption: `${title}, the figures`,
  columns: [{ name: x.title }, ...series.map(({ name }) => ({ name, isNumber: true }))],
  rows: x.texts.map((name, i) => ({
    cells: [name, ...series.map(({ texts, values }) => texts?.[i] ?? rounded(values[i] ?? null))],
  })),
});

const rounded = (value: number | null): string =>
  value === null ? '' : Number(value.toPrecision(3)).toLocaleString('en-US');
