/**
 * The words of Promptmill, and what they name as types. This file imports nothing.
 *
 * - **job**: a file under `jobs/`: input, prompt template, parameters, output, limits, schedule.
 * - **run**: a job over one input into one output; it may take several executions.
 * - **execution**: one process at work on a run; each resume begins the next.
 * - **row**: one input record; it becomes one prompt and exactly one output record.
 * - **chunk**: up to `chunk_size` consecutive rows; one BullMQ job.
 * - **known**: said of a row whose outcome is in the ledger or on disk: it is not called again.
 * - **written**: said of a row whose record is on disk.
 * - **answered**: said of a completed row whose answer is valid and was not left out.
 * - **outcome**: how a row ended: `completed`, `filtered`, `failed` or `skipped`.
 * - **interim outcome**: an answer that does not fit; the ledger keeps it until its row, which is asked again, has ended.
 * - **tally**: what is counted of all outcomes; the summary and the report are made of it.
 * - **window**: the rows that are handed to the queue and not yet written to the output.
 * - **ledger**: the shared store of what is known and not yet written: rows are reserved in it before a call, and settled after.
 * - **lease**: a worker's hold on a chunk, for as long as it works on it.
 * - **orphaned call**: a call whose process was killed, so that nobody knows what came of it; it may have been billed.
 * - **manifest**: the file beside the output that says how far a run came.
 * - **committer**: appends records to the part file, makes them durable, then writes the manifest.
 * - **output target**: the files that a run writes to, found and locked before anything is sent.
 * - **engine**: producer, worker and collector of a run, side by side.
 * - **watchdog**: stops a run, resumably, when nothing moves any more or a limit is reached.
 * - **canary**: the first rows, which go ahead: when their answers are not good enough, the run stops.
 * - **rescue**: puts chunks into the queue again that were lost there.
 * - **heartbeat**: what a run or a worker says of itself about once a second; status and dashboard read it.
 * - **deployment**: the named model behind an endpoint; the unit of quota, so also the unit of queue.
 * - **endpoint**: a deployment as this process calls it: address, proxy, API version.
 * - **operation**: how prompts become a request, and a choice of its answer a text.
 * - **permit**: the right to make one call at one moment; all workers of a queue take theirs from one line.
 * - **rate**: permits a minute: advertised where the service names its quota, estimated where only its refusals tell.
 * - **tick**: one moment at which a schedule starts its job.
 */

/** A value as JSON has it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** Why a row, a call or a chunk did not succeed. `code` is stable, `message` is for people. */
export interface Fault {
  readonly code: string;
  readonly message: string;
}

/** One input record. */
export interface Row {
  /** Position among the input's records, from 1. Blank lines and the header are no records. */
  readonly number: number;
  /** Line of the decoded input on which the record begins, from 1. */
  readonly line: number;
  /** Column name → value, in input order. CSV values are strings; JSONL values are any JSON. */
  readonly fields: ReadonlyMap<string, Json>;
  /** Size of the record in the input, in bytes; decides where a chunk ends. */
  readonly bytes: number;
  /** Bytes that the parsed record takes in memory, about; bounds what the window holds. @default bytes */
  readonly held?: number;
  /** JSONL only: the record's own text, so that it can be written out unchanged (big numbers, key order). */
  readonly source?: string;
  /** Set when the record cannot be used (ragged, not JSON): the row ends `failed` with this fault. */
  readonly fault?: Fault;
}

/** The content filter's word on one category. Later versions of the service send `detected` in place of `severity`. */
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
  /** The row shared a request with others: its part of the bill is in proportion to its own tokens. */
  readonly estimated?: true;
}

/** What calls take, by the two kinds of tokens that have a price. */
export type Tokens = Pick<Usage, 'prompt_tokens' | 'completion_tokens'>;

/** What the service answered for one row. `null` means that the service did not say. */
export interface Completion {
  /** The raw text of the first choice; of several, of the first that is of use. */
  readonly text: string | null;
  readonly finish_reason: string | null;
  readonly usage: Usage | null;
  readonly model: string | null;
  readonly id: string | null;
  /** Seconds since 1970, as the service sends it. */
  readonly created: number | null;
  /** Log probabilities as the service sends them, in the form of its operation; only where the request asks for them. */
  readonly logprobs?: Json;
  /**
   * `bytes`: some were no UTF-8, and U+FFFD stands for them. `cut`: the text went on. `logprobs`: the text is whole, and its log
   * probabilities were too long to keep. `prompt`: the server has read only a part of the prompt.
   */
  readonly damaged?: 'bytes' | 'cut' | 'logprobs' | 'prompt';
  /** The further choices that are of use, in their order; only where the request asks for several. */
  readonly others?: readonly Choice[];
}

/** A further choice of an answer: one that has a text which no filter blocked. */
export interface Choice {
  readonly text: string;
  readonly finish_reason: string | null;
  readonly damaged?: 'bytes';
  /** What the filter says of it; absent where that is what it says of the first. */
  readonly filters?: FilterResults | null;
}

/** The content filter's results for both sides of a call. `null` means that the service did not say. */
export interface Filters {
  readonly prompt: FilterResults | null;
  readonly completion: FilterResults | null;
}

/** Where the outcome of a row comes from that was not called: `input.dedupe`, `input.only_new`. */
export type Origin =
  /** Number of the earlier row of this run that asks the same. */
  | { readonly copied_from: number }
  /** Id of the run that answered the row. */
  | { readonly carried_from: string };

/**
 * Where the answer of a row comes from: `read` from the text as it is, `repaired`, from a further answer of the same
 * deployment, from the majority of several, or from another deployment.
 */
export type AnswerSource = 'read' | 'repaired' | 'asked_again' | 'voted' | 'escalated';

/** What every called row carries: how many attempts it took, and how long the last call lasted. */
interface Called {
  /** Attempts made for this row, from 1; waits for a quota are no attempts. 0 where nothing was sent. */
  readonly attempts: number;
  /** Times that the row was asked, where an answer did not fit and it was asked again. @default 1 */
  readonly asked?: number;
  /** Milliseconds from the last request to its last byte; `null` when no call ended. */
  readonly latency_ms: number | null;
  /** Set for a row whose outcome was taken over: it has no usage, no latency and no attempts of its own. */
  readonly origin?: Origin;
  /** Set where the completion is not the first of the row. Whether it was repaired, only reading it tells. */
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
  readonly error: Fault;
}

/** A final error, attempts used up, or a row that could not be sent (then `attempts` is 0). */
export interface Failed extends Called {
  readonly status: 'failed';
  readonly error: Fault;
}

/** A required field of the row is empty; nothing was sent. */
interface Skipped {
  readonly status: 'skipped';
}

/** How a row ended. */
export type Outcome = Completed | Filtered | Failed | Skipped;

/** How rows end, in the order in which they are shown. */
export const STATUSES = ['completed', 'filtered', 'failed', 'skipped'] as const satisfies Outcome['status'][];

/** The outcomes that a worker produces; the others are known before anything is sent. */
export type CalledOutcome = Completed | Filtered | Failed;

/** The request fields that shape a completion; everything of the service's request but `prompt` and `stream`. */
export interface Parameters {
  readonly max_tokens?: number | null;
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  readonly n?: number | null;
  readonly best_of?: number;
  readonly logprobs?: number | null;
  readonly echo?: boolean | null;
  readonly suffix?: string | null;
  readonly stop?: string | readonly string[] | null;
  readonly presence_penalty?: number;
  readonly frequency_penalty?: number;
  readonly logit_bias?: { readonly [token: string]: number } | null;
  readonly user?: string;
}

/** What was read from a completion's text. */
export interface Answer {
  /** One value for each answer column of the output, `null` where nothing was found. */
  readonly values: readonly Json[];
  /** What the summary counts: the labels, the number, or `valid`/`invalid` for JSON; nothing for free text. */
  readonly counted: readonly string[];
  /** Set when the text is none of the labels, no number of the range, or no JSON of the schema; the row stays `completed`. */
  readonly fault: Fault | null;
  /** The text had to be mended; absent where it was read as it is. */
  readonly repaired?: true;
  /** The further choice of the completion that it was read from; absent where it is the first. */
  readonly choice?: Choice;
  /** How sure the model is; null where the service did not say, or there is no answer; absent where the job does not ask. */
  readonly confidence?: Confidence | null;
  /** Whether the label was left out for want of confidence; absent where the job does not ask for that. */
  readonly abstained?: boolean;
  /** The label that the model said, where it was left out. */
  readonly label?: string;
}

/** How sure a model is of its label, or of its number. */
export interface Confidence {
  /** Probability of what was read, or the share of its votes; from 0 to 1. */
  readonly value: number;
  /** Of each label that is likely enough for the service to name it, or that has votes. They add up to 1 at most. */
  readonly probabilities: ReadonlyMap<string, number>;
}
