import { hash } from 'node:crypto';
import type { SentRequest } from '../../batch/done-files.js';
import type { Outcome, Parameters, Problem, Prompt, Row } from '../../core/model.js';
import { OffsetIndex } from '../../core/offset-index.js';
import { promptText, shownText } from '../../prompt/prompt-text.js';
import { isRepeatable, requestText } from '../../prompt/reuse-keys.js';
import { emptyFields, type RowRequest } from '../../prompt/row-request.js';
import { mostGenerated } from '../../prompt/tokens.js';
import { answerBytes, LARGEST_ANSWER } from '../../service/answer-size.js';
import { DEFAULT_MAX_TOKENS } from '../../service/parameters.js';
import { CommonBeginning } from './common-beginning.js';
import type { GoldCount, GoldCounts } from './gold-count.js';
import { added, NO_TOKENS, type TokenSums } from './quote.js';

export interface InspectionRules {
  readonly count: (prompt: Prompt) => number;
  /** Tokens of prompt and completion together; `null` for an unknown model. */
  readonly contextWindow: number | null;
  /** `null`: not set. */
  readonly tokensPerMinute: number | null;
  readonly require: readonly string[];
  /** The job's; a row's override them. */
  readonly parameters: Parameters;
  readonly grouping: Grouping;
  readonly dedupe: boolean;
  /** Whether the row's answer is known; null for a job without such. */
  readonly isDone: ((row: Row, request: SentRequest) => boolean) | null;
  /** Counts the right answers; `null` for a job without. */
  readonly golds: GoldCount | null;
  /** `answer.gold` if the template names it, else `null`. */
  readonly goldInPrompt: string | null;
}

export interface RenderedPrompt {
  readonly row: number;
  readonly line: number;
  readonly tokens: number;
  /** The job's with the row's own. */
  readonly parameters: Parameters;
  readonly text: string;
}

export interface Inspected {
  readonly rows: {
    readonly total: number;
    readonly to_send: number;
    /** A required field is empty. */
    readonly skipped: number;
    /** End `failed` whatever the service answers. */
    readonly failing: number;
    /** Copies of an earlier row's outcome; only with `input.dedupe`. */
    readonly copied?: number;
    /** Answered already, and not sent; only with `input.done`. */
    readonly done?: number;
  };
  /** `code` is the name of the empty field. */
  readonly skipped: readonly Finding[];
  /** `code` is the row's future `error_code`. */
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
  /** `null` for a job without `answer.gold`. */
  readonly gold: GoldCounts | null;
  readonly tokens: TokenSums;
  /** Share of the prompts not in Latin script, from 0 to 1: by tokens, estimated from bytes per character. */
  readonly other_scripts: number;
  readonly longest_prompt: Pick<RenderedPrompt, 'row' | 'line' | 'tokens'> | null;
  /** Tokens at the beginning of the prompts that are the same in every row, over all rows. */
  readonly cacheable: number;
  /** Without retries. */
  readonly requests: number;
  readonly duplicates: DuplicateRows;
  readonly first_prompt: RenderedPrompt | null;
}

/** Memory does not grow with the number of rows. */
export class Inspection {
  readonly #suffixTokens: (suffix: string) => number;
  readonly #skipped = new Findings();
  readonly #problems = new Findings();
  readonly #warnings = new Findings();
  readonly #duplicates = new Duplicates();
  readonly #requests: RequestCount;
  readonly #beginning = new CommonBeginning();
  #total = 0;
  #sent = 0;
  #copied = 0;
  #done = 0;
  #skippedRows = 0;
  #tokens = NO_TOKENS;
  #otherScripts = 0;
  #longest: Inspected['longest_prompt'] = null;
  #first: RenderedPrompt | null = null;

  constructor(private readonly rules: InspectionRules) {
    this.#suffixTokens = lastRemembered(rules.count);
    this.#requests = new RequestCount(rules.grouping);
  }

  get rows(): number {
    return this.#total;
  }

  get failing(): number {
    return this.#problems.rows;
  }

  add(row: Row, request: RowRequest): void {
    this.#total++;
    this.rules.golds?.add(row);
    if (request.kind === 'settled') {
      this.#requests.pass(row.bytes);
      this.#settled(row, request.outcome);
    } else {
      const bytes = row.bytes + promptText(request.prompt).length;
      const isKnown = this.#send(row, request);
      if (isKnown) this.#requests.pass(bytes);
      else {
        const answer = answerBytes({ ...this.rules.parameters, ...request.parameters }, request.prompt);
        this.#requests.send(bytes, JSON.stringify(request.parameters), answer);
      }
    }
  }

  result(): Inspected {
    return {
      rows: {
        total: this.#total,
        to_send: this.#sent,
        skipped: this.#skippedRows,
        failing: this.#problems.rows,
        ...(this.rules.dedupe && { copied: this.#copied }),
        ...(this.rules.isDone && { done: this.#done }),
      },
      skipped: this.#skipped.toList(),
      problems: this.#problems.toList(),
      warnings: this.#warnings.toList(),
      gold: this.rules.golds?.result() ?? null,
      tokens: this.#tokens,
      other_scripts: this.#otherScripts / Math.max(1, this.#tokens.prompt_tokens),
      longest_prompt: this.#longest,
      cacheable: this.#cacheable(),
      requests: this.#requests.requests,
      duplicates: this.#duplicates.result(),
      first_prompt: this.#first,
    };
  }

  #cacheable(): number {
    const { prompt } = this.#beginning;
    if (prompt === null) return 0;
    const { count } = this.rules;
    const inEach = count(prompt) - count(typeof prompt === 'string' ? '' : []);
    return Math.min(this.#tokens.prompt_tokens, this.#sent * inEach);
  }

  #settled(row: Row, outcome: Outcome): void {
    if (outcome.status === 'failed') {
      this.#problems.add(row, outcome.error);
      return;
    }
    this.#skippedRows++;
    for (const field of emptyFields(row, this.rules.require)) {
      this.#skipped.add(row, { code: field, message: `${field} is empty` });
    }
  }

  /** @returns whether the row is not sent, because it is a copy, or its answer is known */
  #send(row: Row, request: SentRequest): boolean {
    const { prompt, parameters: own } = request;
    const parameters = { ...this.rules.parameters, ...own };
    const { max_tokens, suffix } = parameters;
    // The model also reads the suffix.
    const text = promptText(prompt);
    const tokens = this.rules.count(prompt) + this.#suffixTokens(suffix ?? '');
    const generated = max_tokens ?? DEFAULT_MAX_TOKENS;
    const isDone = this.rules.isDone?.(row, request) === true;
    const tooLong = isDone ? null : this.#tooLong(tokens, generated);
    if (tooLong !== null) {
      this.#problems.add(row, tooLong);
      return false;
    }
    const sums = { prompt_tokens: tokens, most_completion_tokens: mostGenerated(parameters) };
    const { number, line } = row;
    const { dedupe } = this.rules;
    const isRepeat = (dedupe || !isDone) && this.#duplicates.add(requestText(prompt, parameters), line, sums);
    if (isRepeat && dedupe && isRepeatable(parameters)) {
      this.#copied++;
      return true;
    }
    if (isDone) {
      this.#done++;
      return true;
    }
    const tooLarge = this.#tooLarge(sums);
    if (tooLarge !== null) this.#warnings.add(row, tooLarge);
    const { goldInPrompt: gold } = this.rules;
    if (gold !== null && emptyFields(row, [gold]).length === 0) this.#warnings.add(row, goldIsSent(gold));
    this.#sent++;
    this.#beginning.add(prompt);
    this.#tokens = added(this.#tokens, sums);
    this.#otherScripts += tokens * Math.min(1, Buffer.byteLength(text) / Math.max(1, text.length) - 1);
    if (tokens > (this.#longest?.tokens ?? -1)) this.#longest = { row: number, line, tokens };
    this.#first ??= { row: number, line, tokens, parameters, text: shownText(prompt) };
    return false;
  }

  /** A run cannot know beforehand that the service will refuse prompt and suffix as too long. */
  #tooLong(tokens: number, generated: number): Problem | null {
    const { contextWindow } = this.rules;
    if (contextWindow === null || tokens + generated <= contextWindow) return null;
    return {
      code: 'context_length_exceeded',
      message:
        `prompt and suffix have ${tokens} tokens, and with max_tokens ${generated} do not fit the context window ` +
        `of ${contextWindow} tokens`,
    };
  }

  /** The service never admits a request larger than the whole quota. */
  #tooLarge({ prompt_tokens, most_completion_tokens }: TokenSums): Problem | null {
    const { tokensPerMinute } = this.rules;
    const estimate = prompt_tokens + most_completion_tokens;
    if (tokensPerMinute === null || estimate <= tokensPerMinute) return null;
    return {
      code: 'request_exceeds_quota',
      message: `the request counts as ${estimate} tokens, and tokens_per_minute is ${tokensPerMinute}`,
    };
  }
}

const goldIsSent = (column: string): Problem => ({
  code: 'gold_in_prompt',
  message: `the prompt has the right answer in it, column ${JSON.stringify(column)}: scores will say nothing`,
});

/** Usually the suffix is the job's, the same for every row. */
function lastRemembered(count: (text: string) => number): (text: string) => number {
  let last = '';
  let tokens = 0;
  return (text) => {
    if (text !== last) [last, tokens] = [text, count(text)];
    return tokens;
  };
}

interface Example {
  readonly row: number;
  /** First line of the record in the input, from 1. */
  readonly line: number;
  readonly message: string;
}

export interface Finding {
  /** Stable and machine-readable, for example `ragged_record`. */
  readonly code: string;
  readonly rows: number;
  /** The first ones. */
  readonly examples: readonly Example[];
}

/** Per finding; the others are only counted. */
const MOST_EXAMPLES = 100;

/** By code; the codes are few, and our own. */
class Findings {
  readonly #found = new Map<string, { rows: number; examples: Example[] }>();
  #rows = 0;

  add({ number, line }: Row, { code, message }: Problem): void {
    const known = this.#found.get(code) ?? { rows: 0, examples: [] };
    this.#found.set(code, known);
    known.rows++;
    this.#rows++;
    if (known.examples.length < MOST_EXAMPLES) known.examples.push({ row: number, line, message });
  }

  get rows(): number {
    return this.#rows;
  }

  /** The most frequent first. */
  toList(): readonly Finding[] {
    return [...this.#found].map(([code, found]) => ({ code, ...found })).sort((a, b) => b.rows - a.rows);
  }
}

interface Grouping {
  readonly chunkSize: number;
  /** Size in bytes at which a chunk ends early; see `src/run/producer.ts`. */
  readonly chunkBytes: number;
  /** Prompts that may share a request. */
  readonly promptsPerRequest: number;
}

/**
 * Requests of a run without retries. Rows of a chunk with equal parameters share a request, up to
 * `promptsPerRequest` rows, and up to the largest answer.
 */
export class RequestCount {
  #requests = 0;
  /** By parameters: rows in the open request, and bytes of its answer. */
  #open = new Map<string, { rows: number; answer: number }>();
  #rows = 0;
  #bytes = 0;

  constructor(private readonly grouping: Grouping) {}

  /**
   * @param parameters the row's own, as text; rows with equal ones share requests
   * @param answer bytes of its answer
   */
  send(bytes: number, parameters: string, answer: number): void {
    const open = this.#open.get(parameters);
    const fits =
      open !== undefined &&
      open.rows < this.grouping.promptsPerRequest &&
      open.answer + answer <= LARGEST_ANSWER;
    if (fits) {
      open.rows++;
      open.answer += answer;
    } else {
      this.#requests++;
      this.#open.set(parameters, { rows: 1, answer });
    }
    this.#row(bytes);
  }

  /** A row that is not sent, but counts towards the size of its chunk. */
  pass(bytes: number): void {
    this.#row(bytes);
  }

  get requests(): number {
    return this.#requests;
  }

  #row(bytes: number): void {
    this.#rows++;
    this.#bytes += bytes;
    if (this.#rows < this.grouping.chunkSize && this.#bytes < this.grouping.chunkBytes) return;
    this.#open.clear();
    [this.#rows, this.#bytes] = [0, 0];
  }
}

/** Rows whose request, prompt and parameters, repeats an earlier row's. */
export interface DuplicateRows extends TokenSums {
  readonly rows: number;
  /** Too many distinct requests to remember: the figures are lower bounds. */
  readonly at_least: boolean;
  readonly examples: readonly { readonly line: number; readonly same_as_line: number }[];
}

const MOST_PAIRS = 20;

/** Distinct requests remembered: the index takes up to 48 MB. */
const MOST_DISTINCT = 3_000_000;

/** 64 bits: among 3,000,000 requests the chance of any collision is one in four million. */
const HASH_BYTES = 8;

export class Duplicates {
  readonly #index: OffsetIndex;
  readonly #examples: { line: number; same_as_line: number }[] = [];
  #rows = 0;
  #tokens = NO_TOKENS;

  /** @param most distinct requests to remember. @default 3,000,000 */
  constructor(most: number = MOST_DISTINCT) {
    this.#index = new OffsetIndex(most, { keyBytes: HASH_BYTES, offsets: false });
  }

  /** @param request its full content as text. @returns whether an earlier row asked the same */
  add(request: string, line: number, tokens: TokenSums): boolean {
    const key = hash('sha1', request, 'buffer').toString('base64url', 0, HASH_BYTES);
    const first = this.#index.find(key)?.row;
    if (first === undefined) {
      this.#index.add(key, line, null);
      return false;
    }
    this.#rows++;
    this.#tokens = added(this.#tokens, tokens);
    if (this.#examples.length < MOST_PAIRS) this.#examples.push({ line, same_as_line: first });
    return true;
  }

  result(): DuplicateRows {
    return { rows: this.#rows, at_least: this.#index.isFull, ...this.#tokens, examples: this.#examples };
  }
}
