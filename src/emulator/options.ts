import type { AnswerSpec } from '../answer/answer-spec.js';
import type { Latency } from './delivery.js';
import { FaultPlan, type FaultRate, type ScriptRule } from './fault-plan.js';
import { DEFAULT_SIDE, type FilterSide } from './filter.js';
import { Quota, type QuotaSettings } from './quota.js';
import type { Hint } from './refusal.js';
import { RequestStats } from './stats.js';

/** Settings of an emulator; every one has a default. */
export interface EmulatorOptions {
  /** Address to listen on. @default '127.0.0.1' */
  readonly host?: string;
  /** Port to listen on; 0 takes a free one. @default 0 */
  readonly port?: number;
  /** First path segment. @default 'openai' */
  readonly segment?: string;
  /** The two keys of the resource. @default made-up keys that open nothing else */
  readonly keys?: readonly [string, string];
  /** One of the two keys that is refused, as after it was renewed. @default neither */
  readonly refusedKey?: 1 | 2;
  /** Deployment name → model ID, besides the deployments that are called as their model. @default none */
  readonly deployments?: Readonly<Record<string, string>>;
  /** Stands before the name of the model in each answer, so that nobody takes it for the model's. @default nothing */
  readonly modelPrefix?: string;
  /** Changes the answers that are not fixed by their prompt, the jitter, and what chance decides. @default 1 */
  readonly seed?: number;
  /** @default no latency */
  readonly latency?: Latency;
  /** The quota of each deployment. @default no limits */
  readonly quota?: Partial<QuotaSettings>;
  /** Answers say in their headers what the quota is and what remains of it. @default true */
  readonly quotaHeaders?: boolean;
  /** How a 429 says when to come back. @default 'seconds' */
  readonly hint?: Hint;
  /** @default both sides blocked from `medium` on */
  readonly filter?: { readonly prompts?: Partial<FilterSide>; readonly completions?: Partial<FilterSide> };
  /** Faults by chance; the first of the script's rules that fits a request comes before them. @default none */
  readonly faults?: readonly FaultRate[];
  /** @default none */
  readonly script?: readonly ScriptRule[];
  /** Milliseconds, for the windows of the quota. @default the monotonic clock */
  readonly clock?: () => number;
}

/** Made-up keys that open nothing but an emulator; no secrets. */
export const TEST_KEYS: readonly [string, string] = ['emulator-test-key-1', 'emulator-test-key-2'];

/** An emulator at work: its settings, and what it keeps between requests. */
export type Service = ReturnType<typeof serviceOf>;

const QUOTA: QuotaSettings = {
  requestsPerMinute: null,
  tokensPerMinute: null,
  requestWindowSeconds: 1,
  estimate: 'full',
};

/**
 * Fills in the defaults.
 * @param told what the job reads from its answers; a text where nobody knows
 */
export function serviceOf(options: EmulatorOptions, told: AnswerSpec) {
  const { keys = TEST_KEYS, seed = 1 } = options;
  let quota = { ...QUOTA, ...options.quota };
  const quotas = new Map<string, Quota>();
  return {
    segment: options.segment ?? 'openai',
    /** The keys that are accepted. */
    keys: keys.filter((key) => options.refusedKey === undefined || key !== keys[options.refusedKey - 1]),
    /** Deployment name → model ID, for names that are no model's own. */
    deployments: new Map(Object.entries(options.deployments ?? {})),
    modelPrefix: options.modelPrefix ?? '',
    told,
    seed,
    latency: options.latency ?? { baseMs: 0, perTokenMs: 0 },
    filter: {
      prompts: { ...DEFAULT_SIDE, ...options.filter?.prompts },
      completions: { ...DEFAULT_SIDE, ...options.filter?.completions },
    },
    /** The quota of each deployment now. */
    get quota(): QuotaSettings {
      return quota;
    },
    quotaHeaders: options.quotaHeaders ?? true,
    hint: options.hint ?? 'seconds',
    clock: options.clock ?? (() => performance.now()),
    faults: new FaultPlan(options.faults ?? [], options.script ?? [], seed),
    received: new RequestStats(),
    quotaOf(deployment: string): Quota {
      const known = quotas.get(deployment) ?? new Quota(quota);
      quotas.set(deployment, known);
      return known;
    },
    /** Changes the quota of each deployment; its windows begin anew. */
    setQuota(changed: Partial<QuotaSettings>): void {
      quota = { ...QUOTA, ...changed };
      quotas.clear();
    },
  };
}
