/**
 * What a person reads, before it is known where: a report is a function that makes a document of its data, and there is one
 * renderer a medium. Texts may be anybody's: a renderer makes all of them harmless, so a report hands them on as they are.
 */
export interface Document {
  /** Of a page, and of a Markdown file. */
  readonly title: string;
  /** What most readers come for. */
  readonly lead: readonly LeadPart[];
  readonly sections: readonly Section[];
  /** Headings over several sections, on a page, in its order; a section of none is a part of the page by itself. */
  readonly chapters?: readonly Chapter[];
  /** Where the rest of a list is that is cut: `in --json`. */
  readonly rest: string;
  /** The last line of a page. @default none */
  readonly footer?: string;
  /** On a terminal, titles stand above tables that need all of its width. @default false */
  readonly isWide?: boolean;
}

export type Medium = 'terminal' | 'markdown' | 'html';

interface Shown {
  /** The media that show it. @default all */
  readonly in?: readonly Medium[];
}

type Tone = 'good' | 'warn' | 'bad';

/** Blocks that belong together. Those with a tone say how it stands. */
export interface LeadPart extends Shown {
  readonly tone?: Tone;
  readonly blocks: readonly Block[];
}

export interface Chapter {
  readonly id: string;
  readonly title: string;
}

export interface Section extends Shown {
  /** Distinct in its document, of small letters: for links. */
  readonly id: string;
  readonly title: string;
  /** Its title on a terminal, 14 cells at most; where it is empty, the section goes on with the one before. @default the title */
  readonly short?: string;
  /** The id of its chapter. @default none */
  readonly chapter?: string;
  readonly blocks: readonly Block[];
}

export type Block = Shown &
  (Text | List | Command | Code | Figures | Table | Matrix | Shares | ChartBlock | RowTable);

interface Text {
  readonly kind: 'text';
  readonly text: string;
  readonly style?: 'strong' | 'muted' | 'warning';
  /** On a terminal it stays one line, however wide. @default false */
  readonly isWhole?: boolean;
  /** It belongs to the list before it. @default false */
  readonly isIndented?: boolean;
}

/** Short texts: in a sentence, or a line for each, cut where it is too long. */
interface List {
  readonly kind: 'list';
  readonly items: readonly string[];
  /** @default false */
  readonly isLines?: boolean;
  /** Items that are shown; how many more there are is said. @default all */
  readonly most?: number;
}

/** Something to type, which stays whole to be copied. */
interface Command {
  readonly kind: 'command';
  readonly text: string;
}

/** A text of several lines, as it is. */
interface Code {
  readonly kind: 'code';
  readonly text: string;
  /** It was cut already. @default false */
  readonly isCut?: boolean;
}

/** A name and its value. */
export interface Figure {
  readonly name: string;
  readonly value: string;
  /** The share of the figure in all of its list, as text and as a number from 0 to 1; `null` where there is none. */
  readonly percent: string | null;
  readonly fraction: number | null;
  /** One message of an error. Only where it is known. */
  readonly sample?: string;
  /** What to do about it. Only of what something can be done about. */
  readonly advice?: string;
  /** What the value alone would mislead without, in large type. */
  readonly note?: string;
}

export interface Figures {
  readonly kind: 'figures';
  readonly rows: readonly Figure[];
  /** They are parts of a whole, so bars are compared with the longest. @default false */
  readonly areParts?: boolean;
  /** What they are on a page: figures in large type, or names with long values. @default a table */
  readonly form?: 'large' | 'facts';
  /** In a sentence on a terminal, in these words or by name and value. @default a line for each */
  readonly said?: readonly string[] | 'by name';
  /** Heads of the names and values. @default none */
  readonly heads?: readonly [name: string, value: string];
  /** Rows on a terminal; the rest is elsewhere. @default all */
  readonly most?: number;
}

interface Column {
  readonly name: string;
  /** Its cells are numbers, and stand at the right. @default false */
  readonly isNumber?: boolean;
  /** Its cells are texts of any length. @default false */
  readonly isLong?: boolean;
  /** Cells that it takes of a terminal at most. @default as many as it needs */
  readonly most?: number;
}

export interface Table {
  readonly kind: 'table';
  /** What it shows; read out on a page, where a heading says it. */
  readonly caption: string;
  readonly columns: readonly Column[];
  readonly rows: readonly TableRow[];
  /** Rows that are shown; how many more there are is said. @default all */
  readonly most?: number;
}

export interface TableRow {
  /** The first is the name of the row. */
  readonly cells: readonly string[];
  /** What the cells have no room for. */
  readonly note?: { readonly text: string; readonly tone: Tone };
}

/** A square of counts: those in the diagonal are the same. */
export interface Matrix {
  readonly kind: 'matrix';
  readonly caption: string;
  /** What the names down and across are. */
  readonly names: readonly [down: string, across: string];
  readonly down: readonly string[];
  readonly across: readonly string[];
  /** `counts[down][across]` */
  readonly counts: readonly (readonly number[])[];
}

/** Parts of a whole, as one bar. */
interface Shares {
  readonly kind: 'shares';
  readonly parts: readonly (readonly [name: string, rows: number])[];
}

interface ChartBlock {
  readonly kind: 'chart';
  readonly chart: Chart;
}

/** Rows of an output: on a page to be sorted, searched and turned over. */
export interface RowTable {
  readonly kind: 'rows';
  readonly caption: string;
  readonly columns: readonly RowColumn[];
  readonly rows: readonly { readonly cells: readonly string[]; readonly isToLookAt: boolean }[];
}

interface RowColumn extends Column {
  /** One of few names; a reader can see the rows of one alone. @default false */
  readonly isChoice?: boolean;
  /** The column of a page that has the cell among others. @default one of its own */
  readonly within?: string;
  /** There its name stands before it. @default false */
  readonly isNamed?: boolean;
}

interface Axis {
  readonly title: string;
  /** The least and the most that it shows. @default from 0 to the largest value */
  readonly domain?: readonly [least: number, most: number];
  /** As d3-format has it. @default `~s`: 1.2k */
  readonly format?: string;
}

/** One of several values that a chart shows at each place. */
interface Series {
  readonly name: string;
  readonly kind: 'first' | 'second' | 'failed' | 'filtered';
  /** One for each place; null where there is none: the line goes on from the one before to the next. */
  readonly values: readonly (number | null)[];
  /** As the table of its figures has them. @default the numbers */
  readonly texts?: readonly string[];
}

/** A picture of numbers. Only words of ours may be in its titles and names: parts of them become code when it is drawn. */
export interface Chart {
  /** Distinct in its document. */
  readonly id: string;
  readonly title: string;
  /** What it shows, in a sentence. */
  readonly description: string;
  readonly x: Axis & {
    /** Of steps, where they begin. */
    readonly values: readonly number[];
    /** Of steps, where the last one ends. */
    readonly end?: number;
    readonly texts: readonly string[];
  };
  readonly y: Axis;
  readonly series: readonly Series[];
  /** A value of `steps` is that of all its step. `areas` are steps that stand on each other. @default 'lines' */
  readonly form?: 'lines' | 'steps' | 'areas';
  /** Whether there is a line on which x and y are the same. @default false */
  readonly diagonal?: boolean;
  /** What is allowed, of `y`: a line across. @default none */
  readonly limit?: number | null;
}

/** What a medium shows of a document: without what is for others, and without sections that have nothing in them. */
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

export const command = (content: string, how: Shown = {}): Block => ({
  kind: 'command',
  text: content,
  ...how,
});

export const figures = (
  rows: readonly Figure[],
  how: Omit<Figures, 'kind' | 'rows'> & Shown = {},
): Block => ({ kind: 'figures', rows, ...how });

/** A figure that is no share of anything. */
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

/** Counts that are not those of the diagonal, the most frequent first. */
export const mixedUp = ({ down, across, counts }: Matrix) =>
  down
    .flatMap((from, i) => across.map((to, j) => ({ from, to, rows: counts[i]?.[j] ?? 0 })))
    .filter(({ from, to, rows }) => rows > 0 && from !== to)
    .sort((a, b) => b.rows - a.rows);

/** The numbers of a chart, for those who want them exactly, or do not see it. */
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
