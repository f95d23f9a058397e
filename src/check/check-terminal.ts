import { cost, count, duration } from '../figures.js';
import { adviceOn } from '../report/advice.js';
import { bodyWidth, clip, flow, painter, plain, sectionLines, words } from '../report/terminal-text.js';
import type { CheckReport } from './check-report.js';
import type { Finding } from './inspection.js';
import type { QuotedBudget, Range } from './quote.js';

/** How to show a check to a person. */
interface CheckTerminalOptions {
  /** Columns of the terminal; 50 is the least that stays readable. */
  readonly width: number;
  /** Whether to colour; the caller knows the stream and `NO_COLOR`. */
  readonly color: boolean;
}

/** Rows that are named for one finding; `--json` has more. */
const MOST_NAMED = 5;
/** Columns of the output that are shown: on 24 lines the rows above them stay in sight. */
const MOST_COLUMNS = 16;

/** Lines of the first prompt that are shown. */
const MOST_PROMPT_LINES = 30;

const SEPARATOR = ', ';

/** The report as text of several lines for a terminal, ending in a line feed. */
export function renderCheck(report: CheckReport, { width: columns, color }: CheckTerminalOptions): string {
  const paint = painter(color);
  const width = bodyWidth(columns);
  const { rows } = report;
  const sections = [
    ['skipped', report.skipped.flatMap((finding) => skippedLines(finding, width))],
    ['failing', report.problems.flatMap((finding) => findingLines(finding, width))],
    ['mistakes?', report.mistakes.flatMap((mistake) => words(plain(mistake), width))],
    ['warnings', report.warnings.flatMap((finding) => findingLines(finding, width))],
    ['tokens', tokenLines(report, width)],
    ['duplicates', duplicateLines(report, width)],
    ['requests', report.requests === 0 ? [] : [count(report.requests)]],
    ['votes', words(votesText(report), width)],
    ['asked again', words(furtherText(report), width)],
    ['cost', words(costText(report), width)],
    ['time', words(timeText(report), width)],
    ['deadline', words(deadlineText(report), width)],
    ['budget', report.budget.flatMap((budget) => words(budgetText(budget, report), width))],
    ['columns', columnLines(report, width)],
    ['first prompt', promptLines(report, width)],
  ] as const;
  const lines = [
    ...flow([plain(report.job), `deployment ${plain(report.deployment)}`], SEPARATOR, columns),
    '',
    paint(
      'bold',
      `${count(rows.total)} rows = ${count(rows.to_send)} to send${copiedText(rows)} + ${count(rows.failing)} failing + ${count(rows.skipped)} skipped`,
    ),
    '',
    ...sectionLines(sections, columns, paint),
  ];
  return `${lines.join('\n')}\n`;
}

/** `9 to 12`, or one figure where the two are the same. */
function between({ least, most }: Range, figure: (value: number) => string): string {
  return least === most ? figure(least) : `${figure(least)} to ${figure(most)}`;
}

/** `10 without review: lines 3, 8, 12, 40, 77 and 5 more` */
function skippedLines({ code, rows, examples }: Finding, width: number): string[] {
  const named = examples.slice(0, MOST_NAMED).map(({ line }) => count(line));
  const more = rows > named.length ? ` and ${count(rows - named.length)} more` : '';
  const lines = named.length === 1 ? 'line' : 'lines';
  return words(`${count(rows)} without ${plain(code)}: ${lines} ${named.join(', ')}${more}`, width);
}

function findingLines({ code, rows, examples }: Finding, width: number): string[] {
  const named = examples.slice(0, MOST_NAMED);
  return [
    `${count(rows)} ${plain(code)}`,
    ...named.map(({ line, message }) => clip(`  line ${count(line)}: ${plain(message)}`, width)),
    ...(rows > named.length ? [`  and ${count(rows - named.length)} more`] : []),
    ...words(adviceOn(code) ?? '', width - 2).map((line) => `  ${line}`),
  ];
}

function tokenLines({ tokens, rows }: CheckReport, width: number): string[] {
  if (rows.to_send === 0) return [];
  const { prompt_tokens, completion_tokens, total_tokens, longest_prompt: longest, spread } = tokens;
  const assumed = tokens.tokenizer_assumed
    ? ' is assumed: the model of the deployment is not known, and service.model can name it. The count is approximate, so ' +
      `totals and costs go from ${percentOf(1 - spread.least)} below it to ${percentOf(spread.most - 1)} above`
    : '';
  const sum = [
    `${tokens.tokenizer_assumed ? 'about ' : ''}${count(prompt_tokens)} prompt`,
    `+ ${between(completion_tokens, count)} completion`,
    `= ${between(total_tokens, count)} total`,
  ];
  return [
    ...flow(sum, ' ', width),
    ...(longest === null
      ? []
      : flow(
          [`longest prompt ${count(longest.tokens)}`, `line ${count(longest.line)}`, windowText(tokens)],
          SEPARATOR,
          width,
        )),
    ...words(`tokenizer ${tokens.tokenizer}${assumed}`, width),
  ];
}

const windowText = ({ context_window: window }: CheckReport['tokens']): string =>
  window === null ? 'context window not known' : `context window ${count(window)}`;

/** Only of a job with `input.dedupe`. */
const copiedText = ({ copied }: CheckReport['rows']): string =>
  copied === undefined ? '' : ` + ${count(copied)} to copy`;

function duplicateLines({ duplicates, rows: all }: CheckReport, width: number): string[] {
  const { rows, at_least, total_tokens, cost: money, examples } = duplicates;
  if (rows === 0 && !at_least) return [];
  const of = at_least ? 'at least ' : '';
  const figures = [
    `${of}${count(rows)} rows ask what an earlier one asks`,
    `${between(total_tokens, count)} tokens`,
    ...(money === null ? [] : [`cost ${between(money, cost)}`]),
  ];
  const named = examples
    .slice(0, MOST_NAMED)
    .map(({ line, same_as_line }) => `line ${count(line)} as ${count(same_as_line)}`);
  return [
    ...flow(figures, SEPARATOR, width),
    ...flow(named, SEPARATOR, width),
    ...words(dedupeText(duplicates, all), width),
  ];
}

function dedupeText(duplicates: CheckReport['duplicates'], { copied }: CheckReport['rows']): string {
  if (duplicates.dedupe_would_copy) return 'input.dedupe: true would copy their outcomes instead of calling';
  if (copied === undefined || duplicates.rows === 0) return '';
  const which = copied === duplicates.rows ? 'they' : `${count(copied)} of them`;
  return `${which} are copied and not called (input.dedupe): no other figure counts them`;
}

function votesText({ votes, tokens, rows }: CheckReport): string {
  if (votes === undefined || rows.to_send === 0) return '';
  const { most } = tokens.completion_tokens;
  return `${votes} choices of each row are billed (answer.votes): up to ${count(most)} completion tokens, ${count(most / votes)} without them`;
}

function furtherText({ further_calls: further, cost: money }: CheckReport): string {
  if (further === undefined) return '';
  const { most, ask_again: times, deployment } = further;
  const again = times === 0 ? [] : [times === 1 ? 'once' : `${times} times`];
  const last = deployment === null ? [] : [`${plain(deployment)} once`];
  const how = [...again, ...last].join(', then ');
  const prices = deployment === null || money === null ? '' : ', at the prices of the job';
  return `up to ${count(most)} further calls for answers that do not fit (answer.on_invalid: ${how})${prices}: no other figure counts them`;
}

function costText({ cost: range, rows }: CheckReport): string {
  if (rows.to_send === 0) return '';
  if (range !== null) return between(range, cost);
  return 'not quoted: add prices: { prompt: …, completion: … } (per 1,000 tokens) to the job file to see the cost';
}

function timeText({ time, rows }: CheckReport): string {
  if (rows.to_send === 0) return '';
  if (time === null) {
    return 'not quoted: without limits.requests_per_minute or limits.tokens_per_minute it depends on the service alone';
  }
  return `${duration(time.seconds)} by limits.${time.limit}, as long as ${callText(time.call_seconds)}`;
}

const callText = (seconds: number): string => `a call takes ${duration(seconds)} or less on average`;

function deadlineText({ deadline }: CheckReport): string {
  if (deadline === null) return '';
  const given = duration(deadline.seconds);
  const call = callText(deadline.call_seconds);
  switch (deadline.verdict) {
    case 'holds':
      return `${given} holds, as long as ${call}`;
    case 'does_not_hold':
      return `${given} does not hold: the quota is too small for it`;
    case 'unknown':
      return `${given}: cannot be said without a quota; it holds as long as ${call}`;
  }
}

/** How a run ends that comes to its budget. */
const STOPS = 'the run will stop, resumably';

function budgetText({ limit, budget, verdict }: QuotedBudget, report: CheckReport): string {
  const given = limit === 'tokens' ? `${count(budget)} tokens` : `cost ${cost(budget)}`;
  switch (verdict) {
    case 'inside':
      return `${given} is enough`;
    case 'exceeded':
      return `${given} is not enough: the prompts alone take ${limit === 'tokens' ? count(report.tokens.total_tokens.least) : cost(report.cost?.least ?? 0)}; ${STOPS}`;
    case 'depends':
      return `${given} may not be enough: that depends on how long the answers are${report.further_calls === undefined ? '' : ', and how many do not fit'}; if not, ${STOPS}`;
  }
}

/** An input may have hundreds. */
function columnLines({ columns }: CheckReport, width: number): string[] {
  const named = columns.slice(0, MOST_COLUMNS).map((name) => clip(plain(name), width - 1));
  const more = columns.length > named.length ? [`and ${count(columns.length - named.length)} more`] : [];
  return flow([...named, ...more], SEPARATOR, width);
}

function promptLines({ first_prompt: first }: CheckReport, width: number): string[] {
  if (first === null) return [];
  const lines = first.text.split('\n');
  const shown = lines.slice(0, MOST_PROMPT_LINES).map((line) => clip(plain(line), width - 2));
  const isCut = first.clipped || lines.length > shown.length;
  return [
    `line ${count(first.line)}, ${count(first.tokens)} tokens`,
    ...shown.map((line) => `│ ${line}`.trimEnd()),
    ...(isCut ? ['… --json has more'] : []),
  ];
}

const percentOf = (share: number): string => `${Math.round(100 * share)} %`;
