import type { AnswerSpec } from '../core/answer-spec.js';
import { BATCH_DEFAULTS, type BatchSettings, hitsOf } from './batches/settings.js';
import { chat } from './chat.js';
import { completions } from './completions.js';
import type { Latency } from './delivery.js';
import { FaultPlan, type FaultRate, type ScriptRule } from './fault-plan.js';
import { DEFAULT_SIDE, type FilterSide } from './filter.js';
import type { EmulatedOperation, Habits } from './operation.js';
import { PromptCache } from './prompt-cache.js';
import { Quota, type QuotaSettings } from './quota.js';
import { type Hint, noCapacity, type OperationName } from './refusal.js';
import { RequestStats } from './stats.js';

/** Settings of an emulator; every one has a default. */
export interface EmulatorOptions extends Partial<Habits> {
  /** Address to listen on. @default '127.0.0.1' */
  readonly host?: string;
  /** Port to listen on; 0 takes a free one. @default 0 */
  readonly port?: number;
  /** First path segment. @default 'openai' */
  readonly segment?: string;
  /** What is served. @default 'both' */
  readonly operation?: ServedOperation;
  /** The two keys of the resource. @default made-up keys that open nothing else */
  readonly keys?: readonly [string, string];
  /** One of the two keys to refuse, as after a key was renewed. @default neither */
  readonly refusedKey?: 1 | 2;
  /** Deployment name → model ID, besides the deployments named like their model. @default none */
  readonly deployments?: Readonly<Record<string, string>>;
  /** Prefix for the model name in answers, so that it is not taken for the real model. @default nothing */
  readonly modelPrefix?: string;
  /** Changes the answers that the prompt does not fix, the jitter, and everything random. @default 1 */
  readonly seed?: number;
  /** @default no latency */
  readonly latency?: Latency;
  /** The quota of each deployment. @default no limits */
  readonly quota?: Partial<QuotaSettings>;
  /**
   * Share of the conversations of the flex tier, 0 to 1, that find capacity. The others are refused at no cost
   * and count on no quota; they may find it when they are sent again. @default 1
   */
  readonly flexCapacity?: number;
  /** How they are refused: services have either form. @default 429 */
  readonly flexRefusal?: 429 | 498;
  /** Whether answers report the quota and what remains of it in their headers. @default true */
  readonly quotaHeaders?: boolean;
  /** How a 429 says when to retry. @default 'seconds' */
  readonly hint?: Hint;
  /** @default both sides blocked from `medium` on */
  readonly filter?: { readonly prompts?: Partial<FilterSide>; readonly completions?: Partial<FilterSide> };
  /** Random faults; the first rule of the script that matches a request comes first. @default none */
  readonly faults?: readonly FaultRate[];
  /** @default none */
  readonly script?: readonly ScriptRule[];
  /** What hosted batches take, and what goes wrong with them. @default 5 seconds, and nothing */
  readonly batches?: Partial<BatchSettings>;
  /** Milliseconds, for the quota windows and the progress of batches. @default the monotonic clock */
  readonly clock?: () => number;
}

/** Made-up keys for the emulator only; not secrets. */
export const TEST_KEYS: readonly [string, string] = ['emulator-test-key-1', 'emulator-test-key-2'];

export type ServedOperation = OperationName | 'both';

const SERVED: Readonly<Record<ServedOperation, readonly EmulatedOperation[]>> = {
  completions: [completions],
  chat: [chat],
  both: [completions, chat],
};
export const SERVED_OPERATIONS = Object.keys(SERVED);

export type Service = ReturnType<typeof serviceOf>;

const QUOTA: QuotaSettings = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  requestWindowSeconds: 1,
  estimate: 'full',
};

/** @param told what the job reads from its answers; text when the job is unknown */
export function serviceOf(options: EmulatorOptions, told: AnswerSpec) {
  const { keys = TEST_KEYS, seed = 1, flexCapacity = 1, flexRefusal = 429 } = options;
  const clock = options.clock ?? (() => performance.now());
  const batches = { ...BATCH_DEFAULTS, ...options.batches };
  const startedAt = Date.now() - clock();
  let quota = { ...QUOTA, ...options.quota };
  const quotas = new Map<string, Quota>();
  const noRoom = { kind: 'reply', name: 'no-capacity', reply: noCapacity(flexRefusal) } as const;
  return {
    segment: options.segment ?? 'openai',
    keys: keys.filter((key) => options.refusedKey === undefined || key !== keys[options.refusedKey - 1]),
    /** Deployment name → model ID, for names that are not a model's own. */
    deployments: new Map(Object.entries(options.deployments ?? {})),
    operations: SERVED[options.operation ?? 'both'],
    reasoningTokens: options.reasoningTokens ?? 0,
    refusalRate: options.refusalRate ?? 0,
    modelPrefix: options.modelPrefix ?? '',
    told,
    seed,
    latency: options.latency ?? { baseMs: 0, perTokenMs: 0 },
    filter: {
      prompts: { ...DEFAULT_SIDE, ...options.filter?.prompts },
      completions: { ...DEFAULT_SIDE, ...options.filter?.completions },
    },
    get quota(): QuotaSettings {
      return quota;
    },
    quotaHeaders: options.quotaHeaders ?? true,
    hint: options.hint ?? 'seconds',
    clock,
    /** The same clock, in milliseconds since 1970. */
    now: () => startedAt + clock(),
    batches,
    batchFault: hitsOf(batches, seed),
    faults: new FaultPlan(options.faults ?? [], options.script ?? [], seed),
    /** Which calls of the flex tier find no capacity. Another seed: other faults do not go with it. */
    shortage: new FaultPlan(
      flexCapacity < 1 ? [{ fault: noRoom, rate: 1 - flexCapacity }] : [],
      [],
      seed + 1,
    ),
    received: new RequestStats(),
    cache: new PromptCache(),
    quotaOf(deployment: string): Quota {
      const known = quotas.get(deployment) ?? new Quota(quota);
      quotas.set(deployment, known);
      return known;
    },
    /** Changes the quota of every deployment and restarts its windows. */
    setQuota(changed: Partial<QuotaSettings>): void {
      quota = { ...QUOTA, ...changed };
      quotas.clear();
    },
  };
}
