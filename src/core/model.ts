/**
 * The terms of Promptmill, and their types. This file imports nothing.
 *
 * - **job**: a file under `jobs/`: input, prompt template, parameters, output, limits, schedule.
 * - **run**: a job over one input into one output; it may take several executions.
 * - **execution**: one process working on a run; each resume begins the next.
 * - **row**: one input record; it becomes one prompt and exactly one output record.
 * - **chunk**: up to `chunk_size` consecutive rows; one BullMQ job, its _entry_ in the queue.
 * - **outcome**: how a row ended: `completed`, `filtered`, `failed` or `skipped`.
 * - **interim outcome**: an invalid answer of a row that is asked again; the ledger keeps it until the row ends.
 * - **known**: a row with an outcome in the ledger or on disk: it is not called again.
 * - **written**: a row with its record on disk.
 * - **completed**: a row for which the service sent a text, be it empty, or no valid answer, or a refusal.
 * - **answered**: a row that is completed, with a valid answer that was not left out. A call is answered when the
 *   service responds to it, whatever it says.
 * - **tally**: the counts over all outcomes, from which summary and report are made.
 * - **window**: the rows handed to the queue and not yet written to the output.
 * - **ledger**: the shared store of what is known and not yet written: rows are reserved before a call, and
 *   settled after.
 * - **look**: a read of the ledger that reserves nothing.
 * - **lease**: a worker's hold on a chunk, or a process's hold on a run.
 * - **own**: of this process, as opposed to the fleet: its own calls. Of a row: set by the row.
 * - **orphaned call**: a call whose process was killed, so its result is unknown; it may have been billed.
 * - **manifest**: the file beside the output that says how far a run came; written after each commit of records.
 * - **watchdog**: stops a run, resumably, when it makes no progress or reaches a limit.
 * - **canary**: the first rows, sent before the others: when their answers are not good enough, the run stops.
 * - **heartbeat**, or beat: the state that a run or a worker reports about once a second.
 * - **board**: where the store keeps heartbeats and paces, as named texts.
 * - **deployment**: the named model behind an endpoint; the unit of quota.
 * - **endpoint**: an address with its deployment, keys, quota and prices; a job has one or several, and its queue is theirs.
 * - **lane**: what calls one endpoint, and decides when it may be called.
 * - **route**: the lanes that take rows from one line.
 * - **tier**: what a call costs and how soon it is served: `online`, or `flex` for less while there is capacity. What was not
 *   called by the run has one, too: `done` was paid before, `batch` was answered in a hosted batch.
 * - **permit**: the right to make one call at one moment; all workers share one line of permits per deployment.
 */

/** A JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** Why a row, a call, a chunk or a run failed. `code` is stable, `message` is for people. */
export interface Problem {
  readonly code: string;
  readonly message: string;
}

export interface Row {
  /** Position among the input's records, from 1. Blank lines and the header do not count. */
  readonly number: number;
  /** Line of the decoded input on which the record begins, from 1. */
  readonly line: number;
  /** Column name → value, in input order. CSV values are strings; JSONL values are any JSON. */
  readonly fields: ReadonlyMap<string, Json>;
  /** Size of the record in the input, in bytes; decides where a chunk ends. */
  readonly bytes: number;
  /** Approximate bytes of the parsed record in memory; bounds the window. @default bytes */
  readonly memoryBytes?: number;
  /** JSONL only: the record's own text, so that it can be written unchanged (big numbers, key order). */
  readonly source?: string;
  /** Set when the record is unusable (ragged, not JSON): the row ends `failed` with this problem. */
  readonly problem?: Problem;
}

/** The filter's verdict on a category. Later service versions send `detected` instead of `severity`. */
export interface FilterVerdict {
  readonly filtered?: boolean;
  readonly severity?: string;
  readonly detected?: boolean;
}

/** Category → verdict. An open map: the service adds categories over time. */
export type FilterResults = { readonly [category: string]: FilterVerdict };

/** Token counts of one row as the service billed them. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  /** Of the prompt, read from the service's cache; absent when it does not say. */
  readonly cached_tokens?: number;
  /** Of the completion, thought and not written; absent when the service does not say. */
  readonly reasoning_tokens?: number;
  /** The row shared a request with others: its part of the bill is proportional to its own tokens. */
  readonly estimated?: true;
}

/** The two kinds of tokens that have a price. */
export type Tokens = Pick<Usage, 'prompt_tokens' | 'completion_tokens'>;

/** What the service answered for one row. `null` means that the service did not say. */
export interface Completion {
  /** The raw text of the first choice; of several, of the first usable one. */
  readonly text: string | null;
  readonly finish_reason: string | null;
  readonly usage: Usage | null;
  /** That served it, which is its price; only of a job that asks for one. */
  readonly tier?: string;
  /** Set when the row was asked again: the usage by tier. */
  readonly tiers?: { readonly [tier: string]: Usage };
  readonly model: string | null;
  readonly id: string | null;
  /** Seconds since 1970, as the service sends it. */
  readonly created: number | null;
  /** Why the model does not answer, in its own words; then there is no text. */
  readonly refusal?: string;
  /** Log probabilities in the form of the operation; only when the request asks for them. */
  readonly logprobs?: Json;
  /**
   * `bytes`: invalid UTF-8 was replaced by U+FFFD. `cut`: the text went on. `logprobs`: the text is whole,
   * but its log probabilities were too long to keep. `prompt`: the server has read only a part of the prompt.
   */
  readonly damaged?: 'bytes' | 'cut' | 'logprobs' | 'prompt';
  /** The further usable choices, in order; only when the request asks for several. */
  readonly others?: readonly Choice[];
}

/** A further choice of an answer, with a text that no filter blocked. */
export interface Choice {
  readonly text: string;
  readonly finish_reason: string | null;
  readonly damaged?: 'bytes';
  /** The filter results of this choice; absent when they equal those of the first. */
  readonly filters?: FilterResults | null;
}

/** The content filter's results for both sides of a call. `null` means that the service did not say. */
export interface Filters {
  readonly prompt: FilterResults | null;
  readonly completion: FilterResults | null;
}

/** Source of the outcome of a row that was not called: `input.dedupe`, `input.only_new`. */
export type Origin =
  /** Number of the earlier row of this run with the same request. */
  | { readonly copied_from: number }
  /** Id of the run that answered the row, and what that run paid for it; absent if unknown. */
  | { readonly carried_from: string; readonly usage?: Usage };

/**
 * Where the answer of a row comes from: `read` from the text, `repaired`, from a further answer of the same
 * deployment, from the majority of several, or from another deployment.
 */
export type AnswerSource = 'read' | 'repaired' | 'asked_again' | 'voted' | 'escalated';

/** What was answered outside the calls of a run: in a file of `input.done`, or in a batch. */
export const ELSEWHERE = ['done', 'batch'] as const;
export type Elsewhere = (typeof ELSEWHERE)[number];

interface Called {
  /** Attempts made for this row, from 1; waits for a quota do not count. 0 when nothing was sent. */
  readonly attempts: number;
  /** Times that the row was asked, when an invalid answer was asked again. @default 1 */
  readonly asked?: number;
  /** Milliseconds from the last request to its last byte; `null` when no call ended. */
  readonly latency_ms: number | null;
  /** Name of the endpoint of the row's last call; absent where the job has only one. */
  readonly endpoint?: string;
  /** Set when the row was asked again, and the job has several: the usage by endpoint. */
  readonly endpoints?: { readonly [name: string]: Usage };
  /** The row's tier; absent for what a call of the run brought, which the ledger counts. */
  readonly elsewhere?: Elsewhere;
  /** Set for a reused outcome: it has no usage, no latency and no attempts of its own. */
  readonly origin?: Origin;
  /** Set when the completion is not the row's first. Whether it was repaired only shows when it is read. */
  readonly answer_source?: Exclude<AnswerSource, 'read' | 'repaired'>;
}

/** An answer that no filter blocked. */
export interface Completed extends Called {
  readonly status: 'completed';
  readonly completion: Completion;
  readonly filters: Filters;
}

/** The content filter blocked the prompt (no completion), or the completion (which was still billed). */
export interface Filtered extends Called {
  readonly status: 'filtered';
  readonly completion: Completion | null;
  readonly filters: Filters;
  readonly error: Problem;
}

/** A final error, attempts used up, or a row that could not be sent (then `attempts` is 0). */
export interface Failed extends Called {
  readonly status: 'failed';
  readonly error: Problem;
  /** Set when the service sent an answer, which is billed, but no text. */
  readonly completion?: Completion;
}

/** A required field of the row is empty; nothing was sent. */
interface Skipped {
  readonly status: 'skipped';
}

export type Outcome = Completed | Filtered | Failed | Skipped;

export const STATUSES = ['completed', 'filtered', 'failed', 'skipped'] as const satisfies Outcome['status'][];

/** The outcomes that a worker produces; the others are known before anything is sent. */
export type CalledOutcome = Completed | Filtered | Failed;

export const ROLES = ['developer', 'system', 'user', 'assistant'] as const;

export interface Message {
  readonly role: (typeof ROLES)[number];
  readonly content: string;
}

/** What is asked: a text, or a conversation where the operation takes one. */
export type Prompt = string | readonly Message[];

/** The request fields that shape an answer: all of the service's except what is asked, and `stream`. */
export interface Parameters {
  readonly max_tokens?: number | null;
  /** The newer name of `max_tokens`, which is set, too: some models refuse the older one. */
  readonly max_completion_tokens?: number;
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  readonly n?: number | null;
  readonly best_of?: number;
  /** A number of alternatives, or, of chat, whether to list as many as `top_logprobs`. */
  readonly logprobs?: number | boolean | null;
  readonly top_logprobs?: number | null;
  readonly echo?: boolean | null;
  readonly suffix?: string | null;
  readonly stop?: string | readonly string[] | null;
  readonly presence_penalty?: number;
  readonly frequency_penalty?: number;
  readonly logit_bias?: { readonly [token: string]: number } | null;
  readonly user?: string;
  readonly seed?: number | null;
  readonly reasoning_effort?: string | null;
  readonly verbosity?: string | null;
  readonly response_format?: { readonly [field: string]: Json };
  readonly service_tier?: string | null;
  /** Fields of a server's own, sent unchecked beside the others. */
  readonly extra_body?: { readonly [field: string]: Json };
}

export interface Answer {
  /** One value per answer column of the output, `null` when nothing was found. */
  readonly values: readonly Json[];
  /** Values for the summary: the labels, the number, or `valid`/`invalid` for JSON; none for free text. */
  readonly counted: readonly string[];
  /** Of JSON: the properties that have few values, and their values. */
  readonly properties?: readonly (readonly [name: string, value: string])[];
  /** Set when the text is no label, no number in the range, or no JSON of the schema; still `completed`. */
  readonly problem: Problem | null;
  /** The text had to be repaired; absent when it was read unchanged. */
  readonly repaired?: true;
  /** The further choice from which it was read; absent for the first. */
  readonly choice?: Choice;
  /** Null when the service did not say, or without an answer; absent when the job does not ask. */
  readonly confidence?: Confidence | null;
  /** Whether the label was left out for low confidence; absent when the job does not ask for that. */
  readonly abstained?: boolean;
  /** The model's label, when it was left out. */
  readonly label?: string;
}

/** How sure a model is of its label, or of its number. */
export interface Confidence {
  /** Probability of the answer, or its share of the votes; from 0 to 1. */
  readonly value: number;
  /** By label, for those that the service names, or that have votes. They add up to 1 at most. */
  readonly probabilities: ReadonlyMap<string, number>;
}
