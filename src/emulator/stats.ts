import { fingerprintOf } from '../core/random.js';
import type { Completions } from './completion.js';
import type { Delivery } from './delivery.js';

export interface Visit {
  readonly delivery: Delivery;
  /** Empty for an invalid request. */
  readonly prompts: readonly string[];
  readonly fault?: string | undefined;
  readonly limited?: 'requests' | 'tokens';
  readonly isBlocked?: boolean | undefined;
  readonly completions?: Completions | undefined;
  /** That answers; `null` for operations without tiers. */
  readonly tier?: string | null;
}

/** What a batch answered to one of its requests. */
export type BatchedAnswer = Pick<Visit, 'prompts' | 'fault' | 'isBlocked' | 'completions'>;

type Usage = { prompt_tokens: number; completion_tokens: number; total_tokens: number };

type TierUsage = Usage & { answered: number; cached_tokens: number; reasoning_tokens: number };

/**
 * What an emulator received and answered. Requests inside batches count for their prompts, answers and usage; all
 * other counts are of requests to its operations.
 */
export interface Stats {
  readonly requests: number;
  /** Status → responses that began with it. */
  readonly by_status: Readonly<Record<string, number>>;
  /** Fault → requests it hit. */
  readonly by_fault: Readonly<Record<string, number>>;
  /** Requests answered with a complete completion. */
  readonly answered: number;
  /** Prompts of valid requests; every prompt of an array and every repetition counts. */
  readonly prompts: number;
  readonly distinct_prompts: number;
  /** Tokens of answers that were sent completely. */
  readonly usage: Readonly<Usage>;
  /** Tokens of answers that were generated but not sent completely: billed for nothing. */
  readonly lost_usage: Readonly<Usage>;
  /** Tier → the part of `answered` and `usage` that are its conversations; `batch` has completions too. */
  readonly by_tier: Readonly<Record<string, Readonly<TierUsage>>>;
  /** Requests refused by the quota, by the limit that refused them. */
  readonly rate_limited: { readonly requests: number; readonly tokens: number };
  /** Requests refused because of a prompt, and filtered choices in answers that were sent completely. */
  readonly filtered: { readonly prompts: number; readonly completions: number };
  /** Callers that hung up before an answer began. */
  readonly abandoned: number;
  readonly largest_concurrency: number;
  /** Batches that were created, and their requests once they have passed the check. */
  readonly batches: { readonly created: number; readonly requests: number };
}

/** Grows by about 50 bytes per distinct prompt. */
export class RequestStats {
  #current = 0;
  readonly #distinct = new Set<number>();
  readonly #byStatus: Record<string, number> = {};
  readonly #byFault: Record<string, number> = {};
  readonly #byTier: Record<string, TierUsage> = {};
  readonly #counted = {
    requests: 0,
    answered: 0,
    prompts: 0,
    usage: noUsage(),
    lost_usage: noUsage(),
    rate_limited: { requests: 0, tokens: 0 },
    filtered: { prompts: 0, completions: 0 },
    abandoned: 0,
    largest_concurrency: 0,
    batches: { created: 0, requests: 0 },
  };

  /** @returns call it when the request has ended */
  enter(): () => void {
    this.#counted.requests += 1;
    this.#current += 1;
    this.#counted.largest_concurrency = Math.max(this.#counted.largest_concurrency, this.#current);
    return () => {
      this.#current -= 1;
    };
  }

  add({ delivery, prompts, fault, limited, isBlocked, completions, tier = null }: Visit): void {
    const counted = this.#counted;
    const status = statusOf(delivery);
    if (status !== null) count(this.#byStatus, String(status));
    if (status === null && fault === undefined) counted.abandoned += 1;
    if (limited) counted.rate_limited[limited] += 1;
    const isWhole = delivery.kind === 'whole' || delivery.kind === 'stream';
    this.#addAnswer({ prompts, fault, isBlocked, completions }, isWhole, tier);
  }

  addBatched(answer: BatchedAnswer): void {
    this.#addAnswer(answer, true, 'batch');
  }

  batchCreated(): void {
    this.#counted.batches.created += 1;
  }

  batchChecked(requests: number): void {
    this.#counted.batches.requests += requests;
  }

  #addAnswer(
    { prompts, fault, isBlocked, completions }: BatchedAnswer,
    isWhole: boolean,
    tier: string | null,
  ): void {
    const counted = this.#counted;
    if (fault !== undefined) count(this.#byFault, fault);
    counted.prompts += prompts.length;
    for (const prompt of prompts) this.#distinct.add(fingerprintOf(prompt));
    if (isBlocked) counted.filtered.prompts += 1;
    if (!completions) return;
    if (isWhole) {
      counted.answered += 1;
      const cut = completions.choices.filter(({ finishReason }) => finishReason === 'content_filter');
      counted.filtered.completions += cut.length;
      if (tier !== null) this.#addTo(tier, completions);
    }
    addUsage(isWhole ? counted.usage : counted.lost_usage, completions);
  }

  #addTo(tier: string, completions: Completions): void {
    this.#byTier[tier] ??= { answered: 0, ...noUsage(), cached_tokens: 0, reasoning_tokens: 0 };
    const usage = this.#byTier[tier];
    addUsage(usage, completions);
    usage.answered += 1;
    usage.cached_tokens += completions.cachedTokens;
    usage.reasoning_tokens += completions.reasoningTokens;
  }

  get stats(): Stats {
    return structuredClone({
      ...this.#counted,
      by_status: this.#byStatus,
      by_fault: this.#byFault,
      by_tier: this.#byTier,
      distinct_prompts: this.#distinct.size,
    });
  }
}

const noUsage = (): Usage => ({ prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 });

function addUsage(usage: ReturnType<typeof noUsage>, { promptTokens, completionTokens }: Completions): void {
  usage.prompt_tokens += promptTokens;
  usage.completion_tokens += completionTokens;
  usage.total_tokens += promptTokens + completionTokens;
}

/** `null` when no response began. */
function statusOf(delivery: Delivery): number | null {
  if (delivery.kind === 'stream') return 200;
  return 'reply' in delivery ? delivery.reply.status : null;
}

function count(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}
