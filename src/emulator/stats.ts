import type { Completions } from './completion.js';
import type { Delivery } from './delivery.js';
import { fingerprintOf } from './random.js';

/** One completion request, as far as it came. */
export interface Visit {
  readonly delivery: Delivery;
  /** Of a valid request. */
  readonly prompts: readonly string[];
  /** Name of the fault that befell it. */
  readonly fault?: string | undefined;
  /** Which limit refused it. */
  readonly limited?: 'requests' | 'tokens';
  /** Whether the filter blocked a prompt. */
  readonly isBlocked?: boolean;
  /** What was generated. */
  readonly completions?: Completions;
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
export class RequestStats {
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

  add({ delivery, prompts, fault, limited, isBlocked = false, completions }: Visit): void {
    const status = statusOf(delivery);
    if (status !== null) count(this.#byStatus, String(status));
    if (fault !== undefined) count(this.#byFault, fault);
    if (status === null && fault === undefined) this.#abandoned += 1;
    this.#prompts += prompts.length;
    for (const prompt of prompts) this.#distinct.add(fingerprintOf(prompt));
    if (limited) this.#limited[limited] += 1;
    if (isBlocked) this.#filtered.prompts += 1;
    if (!completions) return;
    const isWhole = delivery.kind === 'whole' || delivery.kind === 'stream';
    if (isWhole) {
      this.#answered += 1;
      const cut = completions.choices.filter(({ finishReason }) => finishReason === 'content_filter');
      this.#filtered.completions += cut.length;
    }
    const usage = isWhole ? this.#usage : this.#lost;
    usage.prompt_tokens += completions.promptTokens;
    usage.completion_tokens += completions.completionTokens;
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

/** The status that a response began with; `null` when there was none. */
function statusOf(delivery: Delivery): number | null {
  if (delivery.kind === 'stream') return 200;
  return 'reply' in delivery ? delivery.reply.status : null;
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

function withTotal(usage: Usage) {
  return { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens };
}
