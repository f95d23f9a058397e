import { cost, count, counted, duration, sampleText } from '../../core/figures.js';
import { adviceOn } from '../../render/advice.js';
import { type Block, type Document, list, section, text } from '../../render/document.js';
import type { CheckReport } from './check-report.js';
import type { Finding } from './inspection.js';
import type { QuotedBudget, Range } from './quote.js';

/** Per finding; `--json` has more. */
const MOST_NAMED = 5;
/** Few enough that on 24 lines the rows above stay in sight. */
const MOST_COLUMNS = 16;

export function checkDocument(report: CheckReport): Document {
  const { job, deployment, rows, sample, requests, budget } = report;
  const sum =
    `${count(rows.total)} rows = ${count(rows.to_send)} to send${copiedText(rows)}${doneText(rows)} + ${count(rows.failing)} failing ` +
    `+ ${count(rows.skipped)} skipped`;
  return {
    title: job,
    lead: [
      { blocks: [list([job, `deployment ${deployment}`])] },
      { blocks: [text(sum, { style: 'strong', isWhole: true })] },
      ...(sample ? [{ blocks: [text(sampleText(sample, rows.total, sample.of))] }] : []),
    ],
    sections: [
      section('endpoints', 'Endpoints', endpointBlocks(report)),
      section(
        'done',
        'Known answers',
        (report.done ?? []).map((said) => text(said)),
        { short: 'done' },
      ),
      section(
        'skipped',
        'Skipped',
        report.skipped.map((finding) => text(skippedText(finding))),
      ),
      section('failing', 'Failing', report.problems.flatMap(findingBlocks)),
      section(
        'mistakes',
        'Mistakes?',
        report.mistakes.map((mistake) => text(mistake)),
      ),
      section('warnings', 'Warnings', report.warnings.flatMap(findingBlocks)),
      section('gold', 'Right answers', goldBlocks(report)),
      section('tokens', 'Tokens', tokenBlocks(report)),
      section('duplicates', 'Duplicates', duplicateBlocks(report)),
      section('requests', 'Requests', [text(requests === 0 ? '' : count(requests))]),
      section('schema', 'Answer schema', [text(SCHEMA_WORDS[report.answer_schema ?? 'none'])], {
        short: 'schema',
      }),
      section('extra', 'Sent unchecked', [text(report.extra_body ? JSON.stringify(report.extra_body) : '')], {
        short: 'extra_body',
      }),
      section('votes', 'Votes', [text(votesText(report))]),
      section('asked_again', 'Asked again', [text(furtherText(report))]),
      section('cost', 'Cost', [text(costText(report)), text(pricesText(report))]),
      section('batches', 'Batches', [text(batchesText(report))]),
      section('time', 'Time', [text(timeText(report))]),
      section('deadline', 'Deadline', [text(deadlineText(report))]),
      section(
        'budget',
        'Budget',
        budget.map((each) => text(budgetText(each, report))),
      ),
      section('columns', 'Columns', [list(report.columns, { most: MOST_COLUMNS })]),
      section('first_prompt', 'First prompt', promptBlocks(report)),
    ],
    rest: '--json has more',
  };
}

/** `west: d1, 600 requests a minute, prices 0.0015 and 0.002` */
const endpointBlocks = ({ endpoints = {} }: CheckReport): Block[] =>
  Object.entries(endpoints).map(([name, { deployment, prices, ...quota }]) => {
    const { requests_per_minute: requests, tokens_per_minute: tokens } = quota;
    return list([
      `${name}: ${deployment}`,
      ...(requests === null ? [] : [`${count(requests)} requests a minute`]),
      ...(tokens === null ? [] : [`${count(tokens)} tokens a minute`]),
      ...(prices === null ? [] : [`prices ${prices.prompt} and ${prices.completion}`]),
    ]);
  });

const SCHEMA_WORDS = {
  none: '',
  strict: 'sent with each request, strict (answer.send_schema)',
  not_strict:
    'sent with each request, not strict: strict wants every property in required and additionalProperties: false, everywhere (answer.send_schema)',
};

/** `9 to 12`, or a single figure. */
const between = (
  { least, most }: Range,
  figure: (value: number, unit?: string) => string,
  unit?: string,
): string => `${least === most ? '' : `${figure(least)} to `}${figure(most, unit)}`;

/** `10 without review: lines 3, 8, 12, 40, 77 and 5 more` */
function skippedText({ code, rows, examples }: Finding): string {
  const named = examples.slice(0, MOST_NAMED).map(({ line }) => count(line));
  const more = rows > named.length ? ` and ${count(rows - named.length)} more` : '';
  const lines = named.length === 1 ? 'line' : 'lines';
  return `${count(rows)} without ${code}: ${lines} ${named.join(', ')}${more}`;
}

function findingBlocks({ code, rows, examples }: Finding): Block[] {
  const named = examples.slice(0, MOST_NAMED).map(({ line, message }) => `line ${count(line)}: ${message}`);
  const more = rows > named.length ? [`and ${count(rows - named.length)} more`] : [];
  return [
    text(`${count(rows)} ${code}`),
    list([...named, ...more], { isLines: true }),
    text(adviceOn(code) ?? '', { isIndented: true }),
  ];
}

function tokenBlocks(report: CheckReport): Block[] {
  const { tokens, rows } = report;
  if (rows.to_send === 0) return [];
  const { prompt_tokens, completion_tokens, total_tokens, longest_prompt: longest, spread } = tokens;
  const assumed = tokens.tokenizer_assumed
    ? ' is assumed: the model of the deployment is not known, and service.model can name it. The count is approximate, so ' +
      `totals and costs go from ${percentOf(1 - spread.least)} below it to ${percentOf(spread.most - 1)} above`
    : '';
  const about = tokens.tokenizer_assumed ? 'about ' : '';
  return [
    text(
      `${about}${count(prompt_tokens)} prompt + ${between(completion_tokens, count)} completion = ` +
        `${between(total_tokens, count)} total`,
    ),
    list(
      longest === null
        ? []
        : [`longest prompt ${count(longest.tokens)}`, `line ${count(longest.line)}`, windowText(tokens)],
    ),
    text(`tokenizer ${tokens.tokenizer}${assumed}`),
    text(cacheableText(report)),
  ];
}

/** `950 of 1,000 rows have one in "Rating"`, then how many of each, and what the map has no place for. */
function goldBlocks({ gold, rows }: CheckReport): Block[] {
  if (gold === undefined) return [];
  const answers = Object.entries(gold.answers).map(([name, times]) => `${name} ${count(times)}`);
  const unmapped = Object.entries(gold.unmapped).map(
    ([value, times]) => `${JSON.stringify(value)} in ${counted(times, 'row')}`,
  );
  return [
    text(`${count(gold.rows)} of ${count(rows.total)} rows have one in ${JSON.stringify(gold.column)}`),
    list(answers, { most: MOST_COLUMNS }),
    ...(unmapped.length === 0
      ? []
      : [text('no place in answer.gold.map:'), list(unmapped, { most: MOST_COLUMNS })]),
  ];
}

/** `50 of 1,260 tokens are the same at the beginning of every row; 1,210 if {{ review }} comes last` */
function cacheableText(report: CheckReport): string {
  const { rows, tokens, cacheable_prompt_tokens: cacheable, cacheable_at_best: best } = report;
  if (rows.to_send < 2 || tokens.prompt_tokens < SHORTEST_CACHED * rows.to_send) return '';
  const each = (sum: number): string => count(Math.round(sum / rows.to_send));
  const columns = (best?.columns ?? []).slice(0, MOST_NAMED).map((name) => `{{ ${name} }}`);
  const isMore =
    best !== null && columns.length > 0 && best.prompt_tokens > cacheable + WORTHWHILE * rows.to_send;
  return (
    `cacheable: ${each(cacheable)} of ${each(tokens.prompt_tokens)} tokens are the same at the beginning of every row` +
    (isMore
      ? `; ${each(best.prompt_tokens)} if ${columns.join(', ')} ${columns.length === 1 ? 'comes' : 'come'} last`
      : '')
  );
}

/** Services cache no shorter prompts. */
const SHORTEST_CACHED = 1024;
/** Tokens of a row that are worth moving columns for. */
const WORTHWHILE = 20;

const windowText = ({ context_window: window }: CheckReport['tokens']): string =>
  window === null ? 'context window not known' : `context window ${count(window)}`;

/** Only of a job with `input.dedupe`. */
const copiedText = ({ copied }: CheckReport['rows']): string =>
  copied === undefined ? '' : ` + ${count(copied)} to copy`;

/** Only of a job with `input.done`. */
const doneText = ({ done }: CheckReport['rows']): string =>
  done === undefined ? '' : ` + ${count(done)} answered already`;

function duplicateBlocks({ duplicates, rows: all, currency }: CheckReport): Block[] {
  const { rows, at_least, total_tokens, cost: money, examples } = duplicates;
  if (rows === 0 && !at_least) return [];
  return [
    list([
      `${at_least ? 'at least ' : ''}${count(rows)} rows ask what an earlier one asks`,
      `${between(total_tokens, count)} tokens`,
      ...(money === null ? [] : [`cost ${between(money, cost, currency)}`]),
    ]),
    list(
      examples
        .slice(0, MOST_NAMED)
        .map(({ line, same_as_line }) => `line ${count(line)} as ${count(same_as_line)}`),
    ),
    text(dedupeText(duplicates, all)),
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
  const last = deployment === null ? [] : [`${deployment} once`];
  const how = [...again, ...last].join(', then ');
  const prices = deployment === null || money === null ? '' : ', at the prices of the job';
  return `up to ${count(most)} further calls for answers that do not fit (answer.on_invalid: ${how})${prices}: no other figure counts them`;
}

function costText({
  cost: range,
  tiers,
  rows,
  currency,
  cost_per_1000_rows: perThousand,
}: CheckReport): string {
  if (rows.to_send === 0) return '';
  if (range !== null) {
    const money = (each: Range): string => between(each, cost, currency);
    const parts = Object.entries(tiers ?? {}).map(([tier, each]) => `${tier} ${each && money(each)}`);
    const each = perThousand === null ? '' : `; ${money(perThousand)} for 1,000 rows`;
    return money(range) + (parts.length === 0 ? '' : ` (${parts.join(', ')})`) + each;
  }
  return 'not quoted: add prices: { prompt: …, completion: … } (per 1,000 tokens) to the job file to see the cost';
}

/** `1,000 tokens: prompt 0.0015, cached 0.001, completion 0.002, in EUR` */
function pricesText({ prices, rows }: CheckReport): string {
  if (prices === null || rows.to_send === 0) return '';
  const parts = PRICES.flatMap(([name, sign]) =>
    prices[name] === undefined ? [] : `${name} ${sign}${prices[name]}`,
  );
  return `1,000 tokens: ${[...parts, ...(prices.currency ? [`in ${prices.currency}`] : [])].join(', ')}`;
}

/** The tiers have a factor of the others. */
const PRICES = [
  ['prompt', ''],
  ['cached', ''],
  ['completion', ''],
  ['flex', '× '],
  ['batch', '× '],
] as const;

function batchesText({ batches, rows }: CheckReport): string {
  if (batches === undefined || rows.to_send === 0) return '';
  const { files, most_seconds: seconds } = batches;
  return `${count(files)} or more, answered within ${duration(seconds)} and usually sooner; what has no answer then is called`;
}

function timeText({ time, rows, batches }: CheckReport): string {
  if (rows.to_send === 0) return '';
  const all = batches === undefined ? '' : 'if all rows are called: ';
  if (time === null) {
    return `${all}not quoted: without limits.requests_per_minute or limits.tokens_per_minute it depends on the service alone`;
  }
  return `${all}${duration(time.seconds)} by limits.${time.limit}, as long as ${callText(time.call_seconds)}`;
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

const STOPS = 'the run will stop, resumably';

function budgetText({ limit, budget, verdict }: QuotedBudget, report: CheckReport): string {
  const given = limit === 'tokens' ? `${count(budget)} tokens` : `cost ${cost(budget, report.currency)}`;
  switch (verdict) {
    case 'inside':
      return `${given} is enough`;
    case 'exceeded':
      return `${given} is not enough: the prompts alone take ${limit === 'tokens' ? count(report.tokens.total_tokens.least) : cost(report.cost?.least ?? 0, report.currency)}; ${STOPS}`;
    case 'depends':
      return `${given} may not be enough: that depends on how long the answers are${report.further_calls === undefined ? '' : ', and how many do not fit'}; if not, ${STOPS}`;
  }
}

function promptBlocks({ first_prompt: first }: CheckReport): Block[] {
  if (first === null) return [];
  return [
    text(`line ${count(first.line)}, ${count(first.tokens)} tokens`),
    { kind: 'code', text: first.text, isCut: first.clipped },
  ];
}

const percentOf = (share: number): string => `${Math.round(100 * share)} %`;
