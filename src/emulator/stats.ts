import { fingerprintOf } from './random.js';

/** One completion request, as far as it came. */
export interface Visit {
  /** Status that was sent; `null` when there was no response. */
  readonly status: number | null;
  /** Name of the fault that befell it. */
  readonly fault: string | null;
  readonly prompts: readonly string[];
  /** Tokens of an answer that was generated. */
  readonly usage: Usage | null;
  /** Whether the answer went out whole. */
  readonly whole: boolean;
  /** Which limit refused it. */
  readonly limited: 'requests' | 'tokens' | null;
  readonly filteredPrompt: boolean;
  /** Choices that the filter cut. */
  readonly filteredCompletions: number;
}

/** Token counts of answers. */
type Usage = { readonly prompt_tokens: number; readonly completion_tokens: number };

/** What an emulator received, and what it answered. Counts of completion requests. */
export interface Stats {
  readonly requests: number;
  /** Status → responses that began with it. */
  readonly by_status: Readonly<Record<string, number>>;
  /** Fault → requests that it befell. */
  readonly by_fault: Readonly<Record<string, number>>;
  /** Requests that were answered with a completion, whole. */
  readonly answered: number;
  /** Prompts of valid requests; every prompt of an array and every repetition counts. */
  readonly prompts: number;
  readonly distinct_prompts: number;
  /** Tokens of the answers that went out whole. */
  readonly usage: Usage & { readonly total_tokens: number };
  /** Tokens of answers that were generated and did not go out whole: billed for nothing. */
  readonly lost_usage: Usage & { readonly total_tokens: number };
  /** Requests that the quota refused. */
  readonly rate_limited: { readonly requests: number; readonly tokens: number };
  /** Requests refused because of a prompt, and choices that were cut in answers that went out whole. */
  readonly filtered: { readonly prompts: number; readonly completions: number };
  /** Callers that hung up before an answer began. */
  readonly abandoned: number;
  readonly largest_concurrency: number;
}

/** Adds visits up. Memory grows with the distinct prompts, by some 50 bytes each. */
export class Tally {
  #requests = 0;
  #answered = 0;
  #prompts = 0;
  #abandoned = 0;
  #current = 0;
  #largest = 0;
  readonly #distinct = new Set<number>();
  readonly #byStatus = new Map<string, number>();
  readonly #byFault = new Map<string, number>();
  readonly #usage = { prompt_tokens: 0, completion_tokens: 0 };
  readonly #lost = { prompt_tokens: 0, completion_tokens: 0 };
  readonly #limited = { requests: 0, tokens: 0 };
  readonly #filtered = { prompts: 0, completions: 0 };

  /** A request begins. Returns what to call when it has ended. */
  enter(): () => void {
    this.#requests += 1;
    this.#current += 1;
    this.#largest = Math.max(this.#largest, this.#current);
    return () => {
      this.#current -= 1;
    };
  }

  add(visit: Visit): void {
    if (visit.status !== null) count(this.#byStatus, String(visit.status));
    if (visit.fault !== null) count(this.#byFault, visit.fault);
    if (visit.status === null && visit.fault === null) this.#abandoned += 1;
    this.#prompts += visit.prompts.length;
    for (const prompt of visit.prompts) this.#distinct.add(fingerprintOf(prompt));
    if (visit.limited) this.#limited[visit.limited] += 1;
    if (visit.filteredPrompt) this.#filtered.prompts += 1;
    if (!visit.usage) return;
    if (visit.whole) {
      this.#answered += 1;
      this.#filtered.completions += visit.filteredCompletions;
    }
    const usage = visit.whole ? this.#usage : this.#lost;
    usage.prompt_tokens += visit.usage.prompt_tokens;
    usage.completion_tokens += visit.usage.completion_tokens;
  }

  get stats(): Stats {
    return {
      requests: this.#requests,
      by_status: Object.fromEntries(this.#byStatus),
      by_fault: Object.fromEntries(this.#byFault),
      answered: this.#answered,
      prompts: this.#prompts,
      distinct_prompts: this.#distinct.size,
      usage: withTotal(this.#usage),
      lost_usage: withTotal(this.#lost),
      rate_limited: { ...this.#limited },
      filtered: { ...this.#filtered },
      abandoned: this.#abandoned,
      largest_concurrency: this.#largest,
    };
  }
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function withTotal(usage: Usage) {
  return { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens };
}
