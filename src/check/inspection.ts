import type { Fault, Outcome, Parameters, Row } from '../model.js';
import { emptyFields, type RowRequest } from '../prompt/row-request.js';
import { isRepeatable, requestText } from '../reuse/keys.js';
import { answerBytes, LARGEST_ANSWER } from '../service/answer-size.js';
import { candidatesOf, DEFAULT_MAX_TOKENS } from '../service/parameters.js';
import { type DuplicateRows, Duplicates } from './duplicates.js';
import { added, NO_TOKENS, type TokenSums } from './quote.js';

/** What an inspection needs to know of the job. */
export interface InspectionRules {
  /** Exact tokens of a text. */
  readonly count: (text: string) => number;
  /** Tokens of prompt and completion together; `null` when the model is not known. */
  readonly contextWindow: number | null;
  /** Quota of tokens a minute; `null` when none is set. */
  readonly tokensPerMinute: number | null;
  readonly require: readonly string[];
  /** The job's own, which a row's override. */
  readonly parameters: Parameters;
  readonly grouping: Grouping;
  /** Rows that ask what an earlier row asks are not sent. */
  readonly dedupe: boolean;
  /** `answer.gold`, where the template names it; else `null`. */
  readonly goldInPrompt: string | null;
}

/** A prompt as it would be sent. */
export interface RenderedPrompt {
  readonly row: number;
  readonly line: number;
  readonly tokens: number;
  /** The job's parameters with the row's own. */
  readonly parameters: Parameters;
  readonly text: string;
}

/** What was found in an input. */
export interface Inspected {
  readonly rows: {
    readonly total: number;
    readonly to_send: number;
    /** They end `skipped`: a required field is empty. */
    readonly skipped: number;
    /** They end `failed`, whatever the service answers. */
    readonly failing: number;
    /** They take over the outcome of an earlier row; only with `input.dedupe`. */
    readonly copied?: number;
  };
  /** Why rows are skipped; `code` is the name of the empty field. */
  readonly skipped: readonly Finding[];
  /** Why rows fail; `code` is the `error_code` that they will have. */
  readonly problems: readonly Finding[];
  /** What may go wrong with rows that are sent. */
  readonly warnings: readonly Finding[];
  readonly tokens: TokenSums;
  /** Share of the prompts, by their tokens, that is not in the Latin script; from 0 to 1, by the bytes of the characters. */
  readonly other_scripts: number;
  readonly longest_prompt: Pick<RenderedPrompt, 'row' | 'line' | 'tokens'> | null;
  /** Requests, when none is retried. */
  readonly requests: number;
  readonly duplicates: DuplicateRows;
  readonly first_prompt: RenderedPrompt | null;
}

/** Looks at the rows of an input one after the other; what it keeps does not grow with their number. */
export class Inspection {
  readonly #rules: InspectionRules;
  readonly #suffixTokens: (suffix: string) => number;
  readonly #skipped = new Findings();
  readonly #problems = new Findings();
  readonly #warnings = new Findings();
  readonly #duplicates = new Duplicates();
  readonly #requests: RequestCount;
  #total = 0;
  #sent = 0;
  #copied = 0;
  #skippedRows = 0;
  #tokens = NO_TOKENS;
  #otherScripts = 0;
  #longest: Inspected['longest_prompt'] = null;
  #first: RenderedPrompt | null = null;

  constructor(rules: InspectionRules) {
    this.#rules = rules;
    this.#suffixTokens = lastRemembered(rules.count);
    this.#requests = new RequestCount(rules.grouping);
  }

  /** Rows so far. */
  get rows(): number {
    return this.#total;
  }

  /** Rows so far that will end `failed`. */
  get failing(): number {
    return this.#problems.rows;
  }

  /** @param request what a run makes of the row */
  add(row: Row, request: RowRequest): void {
    this.#total++;
    if (request.kind === 'settled') {
      this.#requests.pass(row.bytes);
      this.#settled(row, request.outcome);
    } else {
      const bytes = row.bytes + request.prompt.length;
      const isCopy = this.#send(row, request.prompt, request.parameters);
      if (isCopy) this.#requests.pass(bytes);
      else {
        const answer = answerBytes({ ...this.#rules.parameters, ...request.parameters }, request.prompt);
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
        ...(this.#rules.dedupe && { copied: this.#copied }),
      },
      skipped: this.#skipped.toList(),
      problems: this.#problems.toList(),
      warnings: this.#warnings.toList(),
      tokens: this.#tokens,
      other_scripts: this.#otherScripts / Math.max(1, this.#tokens.prompt_tokens),
      longest_prompt: this.#longest,
      requests: this.#requests.requests,
      duplicates: this.#duplicates.result(),
      first_prompt: this.#first,
    };
  }

  #settled(row: Row, outcome: Outcome): void {
    if (outcome.status === 'failed') {
      this.#problems.add(row, outcome.error);
      return;
    }
    this.#skippedRows++;
    for (const field of emptyFields(row, this.#rules.require)) {
      this.#skipped.add(row, { code: field, message: `${field} is empty` });
    }
  }

  /** @returns whether the row is a copy of an earlier one, which is not sent */
  #send(row: Row, text: string, own: Parameters | null): boolean {
    const parameters = { ...this.#rules.parameters, ...own };
    const { max_tokens, suffix } = parameters;
    // The model reads what comes after the completion as well.
    const tokens = this.#rules.count(text) + this.#suffixTokens(suffix ?? '');
    const generated = max_tokens ?? DEFAULT_MAX_TOKENS;
    const tooLong = this.#tooLong(tokens, generated);
    if (tooLong !== null) {
      this.#problems.add(row, tooLong);
      return false;
    }
    const sums = { prompt_tokens: tokens, most_completion_tokens: generated * candidatesOf(parameters) };
    const { number, line } = row;
    const isRepeat = this.#duplicates.add(requestText(text, parameters), line, sums);
    if (isRepeat && this.#rules.dedupe && isRepeatable(parameters)) {
      this.#copied++;
      return true;
    }
    const tooLarge = this.#tooLarge(sums);
    if (tooLarge !== null) this.#warnings.add(row, tooLarge);
    const { goldInPrompt: gold } = this.#rules;
    if (gold !== null && emptyFields(row, [gold]).length === 0) this.#warnings.add(row, goldIsSent(gold));
    this.#sent++;
    this.#tokens = added(this.#tokens, sums);
    this.#otherScripts += tokens * Math.min(1, Buffer.byteLength(text) / Math.max(1, text.length) - 1);
    if (tokens > (this.#longest?.tokens ?? -1)) this.#longest = { row: number, line, tokens };
    this.#first ??= { row: number, line, tokens, parameters, text };
    return false;
  }

  /** The service refuses what a run cannot know beforehand: prompt and suffix together too long. */
  #tooLong(tokens: number, generated: number): Fault | null {
    const { contextWindow } = this.#rules;
    if (contextWindow === null || tokens + generated <= contextWindow) return null;
    return {
      code: 'context_length_exceeded',
      message:
        `prompt and suffix have ${tokens} tokens, and with max_tokens ${generated} do not fit the context window ` +
        `of ${contextWindow} tokens`,
    };
  }

  /** The service never admits a request that is larger than the whole quota. */
  #tooLarge({ prompt_tokens, most_completion_tokens }: TokenSums): Fault | null {
    const { tokensPerMinute } = this.#rules;
    const estimate = prompt_tokens + most_completion_tokens;
    if (tokensPerMinute === null || estimate <= tokensPerMinute) return null;
    return {
      code: 'request_exceeds_quota',
      message: `the request counts as ${estimate} tokens, and tokens_per_minute is ${tokensPerMinute}`,
    };
  }
}

const goldIsSent = (column: string): Fault => ({
  code: 'gold_in_prompt',
  message: `the prompt has the right answer in it, column ${JSON.stringify(column)}: scores will say nothing`,
});

/** Mostly the suffix is the job's, the same for every row. */
function lastRemembered(count: (text: string) => number): (text: string) => number {
  let last = '';
  let tokens = 0;
  return (text) => {
    if (text !== last) [last, tokens] = [text, count(text)];
    return tokens;
  };
}

/** A row that a person may want to look at. */
interface Example {
  readonly row: number;
  /** Line of the input on which the record begins, from 1. */
  readonly line: number;
  readonly message: string;
}

/** Rows of which the same is to be said. */
export interface Finding {
  /** Stable and machine-readable, for example `ragged_record`. */
  readonly code: string;
  /** How many rows. */
  readonly rows: number;
  /** The first of them. */
  readonly examples: readonly Example[];
}

/** Rows named for one finding; of the others only their number is kept. */
const MOST_EXAMPLES = 100;

/** Collects what is found, by code; the codes are few, and our own. */
class Findings {
  readonly #found = new Map<string, { rows: number; examples: Example[] }>();
  #rows = 0;

  add({ number, line }: Row, { code, message }: Fault): void {
    const known = this.#found.get(code) ?? { rows: 0, examples: [] };
    this.#found.set(code, known);
    known.rows++;
    this.#rows++;
    if (known.examples.length < MOST_EXAMPLES) known.examples.push({ row: number, line, message });
  }

  /** Rows of all findings together. */
  get rows(): number {
    return this.#rows;
  }

  /** The most frequent first. */
  toList(): readonly Finding[] {
    return [...this.#found].map(([code, found]) => ({ code, ...found })).sort((a, b) => b.rows - a.rows);
  }
}

/** How rows are grouped on their way to the service. */
interface Grouping {
  /** Rows in a chunk. */
  readonly chunkSize: number;
  /** Size at which a chunk ends before it has all its rows; see `src/run/producer.ts`. */
  readonly chunkBytes: number;
  /** Prompts that may share one request. */
  readonly promptsPerRequest: number;
}

/**
 * Counts the requests of a run in which nothing is retried. Rows of one chunk share a request when their parameters
 * are equal, up to `promptsPerRequest` of them, and as many as one answer has room for.
 */
export class RequestCount {
  readonly #grouping: Grouping;
  #requests = 0;
  /** Of rows with equal parameters: how many share the request that is open, and the bytes of its answer. */
  #open = new Map<string, { rows: number; answer: number }>();
  #rows = 0;
  #bytes = 0;

  constructor(grouping: Grouping) {
    this.#grouping = grouping;
  }

  /**
   * A row that is sent.
   * @param parameters the row's own, as text; rows with equal ones share requests
   * @param answer bytes of its answer
   */
  send(bytes: number, parameters: string, answer: number): void {
    const open = this.#open.get(parameters);
    const fits =
      open !== undefined &&
      open.rows < this.#grouping.promptsPerRequest &&
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

  /** A row that is not sent; it counts towards the size of its chunk all the same. */
  pass(bytes: number): void {
    this.#row(bytes);
  }

  /** Requests for the rows so far. */
  get requests(): number {
    return this.#requests;
  }

  #row(bytes: number): void {
    this.#rows++;
    this.#bytes += bytes;
    if (this.#rows < this.#grouping.chunkSize && this.#bytes < this.#grouping.chunkBytes) return;
    this.#open.clear();
    [this.#rows, this.#bytes] = [0, 0];
  }
}
