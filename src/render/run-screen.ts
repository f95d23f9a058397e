import { costOf, type Prices, savedIn } from '../account/summary.js';
import type { Tally } from '../account/tally.js';
import { cost, count, counted, duration, rate } from '../core/figures.js';
import type { Tokens } from '../core/model.js';
import { asStarted } from '../core/started.js';
import {
  BAR,
  bar,
  drawnBar,
  fitted,
  fractionDone,
  inFlightText,
  type Piece,
  type ProgressView,
  percentDone,
  rowsDone,
  timeLeft,
} from './progress-lines.js';
import { cells, clip, escapeControls, type Paint, padEnd } from './terminal-text.js';

interface Spending {
  readonly prices: Prices | null;
  readonly budget: { readonly tokens: number | null; readonly cost: number | null } | null;
}

/** `isFound`: estimated from refusals. */
interface Quota {
  readonly perMinute: number | null;
  readonly isFound: boolean;
}

export interface RunFigures extends Spending {
  /** Seconds of work in this execution. */
  readonly seconds: number;
  /** Billed so far; under a budget, plus the most that calls in flight may take. */
  readonly tokens: Tokens;
  /** In the last minute; null while unknown. */
  readonly callsPerMinute: number | null;
  readonly rateLimited: number;
  readonly quota: Quota | null;
  /** Of the rows on disk. */
  readonly tally: Pick<Tally, 'rows' | 'answers' | 'abstained' | 'tiers'>;
  /** False for free text. */
  readonly namesAnswers: boolean;
}

/** Lines have titles from this width on. */
const TITLED = 36;
const TITLE = 9;
/** Wider lines are harder to read. */
const WIDEST = 110;
const ANSWER_BAR = { least: 3, most: 12 } as const;
const MOST_ANSWERS = 6;
const LONGEST_NAME = 24;

/** Five lines, and one for answers that have names. The number of lines never changes. */
export function runLines(view: ProgressView, figures: RunFigures, width: number, paint: Paint): string[] {
  const whole = Math.min(width, WIDEST);
  const room = whole >= TITLED ? whole - TITLE : whole;
  const titled = (title: string, line: string): string =>
    room < whole ? paint('dim', padEnd(title, TITLE)) + line : line;
  const length = Math.max(BAR.least, Math.min(BAR.most, Math.floor(room * 0.3)));
  const inRoom = (pieces: readonly Piece[]): string => fitted(pieces, room, paint);
  return [
    titled('known', inRoom(rowPieces(view, length))),
    view.waiting === null
      ? titled('speed', inRoom(speedPieces(view, figures)))
      : titled('waits', paint('yellow', waitText(view.waiting, room))),
    titled('calls', inRoom(callPieces(view, figures, length))),
    titled(figures.prices === null ? 'tokens' : 'cost', inRoom(spendingPieces(figures, length))),
    ...(figures.namesAnswers ? [titled('answers', answerLine(figures, room, paint))] : []),
    titled('written', inRoom(outcomePieces(view, figures))),
  ];
}

/** If too long, the reason is cut, not what comes next: `…; next call at 10:42:05`. */
function waitText(waiting: string, room: number): string {
  const text = asStarted(escapeControls(waiting)).replace(/^waiting /, '');
  const [next = ''] = /; [^;]*$/.exec(text) ?? [];
  if (cells(text) <= room || cells(next) > room / 2) return clip(text, room);
  return clip(text.slice(0, -next.length || undefined), room - cells(next)) + next;
}

function rowPieces(view: ProgressView, length: number): Piece[] {
  const left = timeLeft(view);
  return [
    bar(fractionDone(view), 4, length),
    { text: percentDone(view), importance: 1, style: 'bold' },
    { text: rowsDone(view), importance: 2 },
    { text: left && `${left} left`, importance: 3 },
  ];
}

function speedPieces(view: ProgressView, { seconds }: RunFigures): Piece[] {
  return [
    { text: view.rate === null ? 'starting' : rate(view.rate, ' rows'), importance: 1 },
    { text: `${duration(Math.floor(seconds))} so far`, importance: 2 },
  ];
}

function callPieces(
  view: ProgressView,
  { callsPerMinute, quota, rateLimited }: RunFigures,
  length: number,
): Piece[] {
  const now = callsPerMinute ?? 0;
  const most = quota?.perMinute ?? null;
  const of = most === null ? '' : ` of ${quota?.isFound ? 'about ' : ''}${count(most)}`;
  return [
    ...(most === null ? [] : [bar(now / most, 4, length)]),
    { text: `${count(now)}${of} a minute`, importance: 1 },
    { text: inFlightText(view), importance: 2 },
    { text: rateLimited === 0 ? '' : `${count(rateLimited)} × 429`, importance: 3, style: 'yellow' },
  ];
}

function spendingPieces({ tokens, prices, budget, tally }: RunFigures, length: number): Piece[] {
  const sum = tokens.prompt_tokens + tokens.completion_tokens;
  const saved = savedIn(tally, prices);
  // The tokens are those of calls.
  const { done: _, ...called } = tally.tiers ?? {};
  const less = savedIn({ tiers: called }, prices) ?? 0;
  // Under a budget of money alone, tokens are counted by their price.
  const isCounted = typeof budget?.cost === 'number' && budget.tokens === null;
  const spent = prices === null ? null : costOf(tokens, prices) - (isCounted ? 0 : less);
  const parts = [part(sum, budget?.tokens), part(spent, budget?.cost)].flatMap((each) => each ?? []);
  const nearest = parts.length === 0 ? null : Math.max(...parts);
  const inCurrency = prices?.currency === undefined ? '' : ` ${prices.currency}`;
  const of = (limit: number | null | undefined, form: (value: number) => string): string =>
    typeof limit === 'number' ? ` of ${form(limit)}` : '';
  return [
    ...(nearest === null
      ? []
      : [bar(nearest, 4, length), { text: `${Math.floor(nearest * 100)} %`, importance: 3 }]),
    // Rounded: more decimals would only flicker.
    {
      text: spent === null ? '' : `${cost(Number(spent.toFixed(2)))}${of(budget?.cost, cost)}${inCurrency}`,
      importance: 1,
    },
    {
      text: `${count(sum)}${of(budget?.tokens, count)}${prices === null ? '' : ' tokens'}`,
      importance: 2,
    },
    { text: saved ? `${cost(Number(saved.toFixed(2)), prices?.currency)} saved` : '', importance: 3 },
  ];
}

const part = (spent: number | null, limit: number | null | undefined): number | null =>
  spent !== null && typeof limit === 'number' ? spent / limit : null;

/** The most frequent answers in order of appearance, so that they keep their places. */
function answerLine({ tally }: RunFigures, room: number, paint: Paint): string {
  const all = Object.entries(tally.answers);
  const most = all
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, MOST_ANSWERS)
    .map(([name]) => name);
  for (let shown = most.length; shown > 0; shown--) {
    const kept = new Set(most.slice(0, shown));
    const texts = all
      .filter(([name]) => kept.has(name))
      .map(([name, rows]) => ({ rows, text: `${clip(escapeControls(name), LONGEST_NAME)} ${count(rows)}` }));
    const more = all.length > shown ? `+${all.length - shown}` : '';
    const taken = [more, ...texts.map(({ text }) => text)]
      .filter((text) => text !== '')
      .reduce((sum, text) => sum + cells(text) + 2, -2);
    if (taken > room) continue;
    const length = Math.min(ANSWER_BAR.most, Math.floor((room - taken) / shown) - 1);
    const highest = Math.max(...texts.map(({ rows }) => rows));
    const drawn = texts.map(({ text, rows }) =>
      length < ANSWER_BAR.least ? text : `${text} ${drawnBar(rows / highest, length, paint)}`,
    );
    return [...drawn, ...(more === '' ? [] : [paint('dim', more)])].join('  ');
  }
  return paint('dim', clip(all.length === 0 ? 'none yet' : `${all.length} different`, room));
}

function outcomePieces({ invalid = 0 }: ProgressView, { tally }: RunFigures): Piece[] {
  const { rows, abstained = 0 } = tally;
  const some = (n: number, what: string, importance: number, style?: Piece['style']): Piece => ({
    text: n === 0 ? '' : `${count(n)} ${what}`,
    importance,
    ...(style !== undefined && { style }),
  });
  return [
    { text: counted(rows.total, 'row'), importance: 7 },
    { text: `${count(Math.max(0, rows.completed - invalid - abstained))} answered`, importance: 1 },
    some(rows.failed, 'failed', 2, 'red'),
    some(invalid, 'invalid', 3, 'yellow'),
    some(abstained, 'abstained', 4),
    some(rows.filtered, 'filtered', 5),
    some(rows.skipped, 'skipped', 6),
  ];
}
