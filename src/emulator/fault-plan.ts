import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import * as z from 'zod';
import { errorText, UsageError } from '../core/errors.js';
import { fingerprintOf, randomFrom } from '../core/random.js';
import { type Disturbance, type Drawn, disturbanceNamed, FAULT_NAMES } from './disturbance.js';

/** A fault for a random share of all requests. */
export interface FaultRate {
  readonly fault: Disturbance;
  /** From 0 to 1; the rates of a plan sum up to at most 1. */
  readonly rate: number;
}

/** A fault for the requests that match a rule. */
export interface ScriptRule {
  /** First request the rule applies to, counted from 1 in the order of admission. @default 1 */
  readonly from?: number | undefined;
  /** Last request the rule applies to. @default no end */
  readonly to?: number | undefined;
  /** Requests with this text in one of their prompts. @default any */
  readonly prompt?: string | undefined;
  /** How often the rule applies. @default always */
  readonly times?: number | undefined;
  readonly fault: Disturbance;
}

/**
 * Decides which requests fail. Rates are drawn from the seed, the prompts and how often they were seen, so
 * the order of requests has no effect, and a repeated prompt can succeed.
 */
export class FaultPlan {
  readonly #applied = new Map<ScriptRule, number>();
  /** Fingerprint of prompts → how often they were seen. Grows by about 50 bytes per distinct prompt. */
  readonly #seen = new Map<number, number>();
  #requests = 0;

  constructor(
    private readonly rates: readonly FaultRate[],
    private readonly script: readonly ScriptRule[],
    private readonly seed: number,
  ) {}

  /** The fault for the next request; `null` for a regular answer. */
  next(prompts: readonly string[]): Drawn | null {
    this.#requests += 1;
    if (this.rates.length === 0 && this.script.length === 0) return null;
    const text = prompts.join('\n');
    const fingerprint = fingerprintOf(text);
    const times = (this.#seen.get(fingerprint) ?? 0) + 1;
    this.#seen.set(fingerprint, times);
    const random = randomFrom(this.seed, `fault ${times}\n${text}`);
    // Drawn before the script is consulted, so that a script does not change the faults of other requests.
    const draw = random();
    const fault = this.#scripted(prompts) ?? this.#drawn(draw);
    return fault && { fault, random };
  }

  #scripted(prompts: readonly string[]): Disturbance | null {
    const rule = this.script.find((candidate) => this.#applies(candidate, prompts));
    if (!rule) return null;
    this.#applied.set(rule, (this.#applied.get(rule) ?? 0) + 1);
    return rule.fault;
  }

  #applies(rule: ScriptRule, prompts: readonly string[]): boolean {
    const { from = 1, to = Number.POSITIVE_INFINITY, prompt = '', times = Number.POSITIVE_INFINITY } = rule;
    return (
      this.#requests >= from &&
      this.#requests <= to &&
      (this.#applied.get(rule) ?? 0) < times &&
      prompts.some((text) => text.includes(prompt))
    );
  }

  #drawn(draw: number): Disturbance | null {
    let below = 0;
    for (const { fault, rate } of this.rates) {
      below += rate;
      if (draw < below) return fault;
    }
    return null;
  }
}

const count = z.number().int().min(1);

const reply = z.strictObject({
  status: z.number().int().min(200).max(599),
  headers: z.record(z.string(), z.union([z.string(), z.number()]).transform(String)).optional(),
  body: z.json().optional(),
});

const fault = z.union([z.string(), z.number()]).transform((name, context): Disturbance => {
  const found = disturbanceNamed(String(name));
  if (found) return found;
  context.addIssue({ code: 'custom', message: `no fault ${JSON.stringify(name)}; there are ${FAULT_NAMES}` });
  return z.NEVER;
});

const rule = z
  .strictObject({
    request: count.optional(),
    from: count.optional(),
    to: count.optional(),
    prompt: z.string().min(1).optional(),
    times: count.optional(),
    fault: fault.optional(),
    reply: reply.optional(),
  })
  .transform(({ request, from = request, to = request, fault, reply, ...rest }, context): ScriptRule => {
    const [chosen, other] = [fault ?? [], reply ? scripted(reply) : []].flat();
    if (chosen && !other) return { from, to, ...rest, fault: chosen };
    context.addIssue({ code: 'custom', message: 'needs one of fault and reply' });
    return z.NEVER;
  });

const scripted = ({ status, headers = {}, body = '' }: z.infer<typeof reply>): Disturbance => ({
  kind: 'reply',
  name: 'reply',
  reply: { status, headers, body },
});

/**
 * Reads a fault script: a list of rules, as YAML or JSON. The first rule that matches a request applies.
 * @throws UsageError with the file, the rule and what is wrong with it
 */
export function readFaultScript(path: string): ScriptRule[] {
  const refused = (code: string, message: string, cause?: unknown) =>
    new UsageError(code, message, 'docs/emulator.md shows what a script looks like.', { cause });
  let content: unknown;
  try {
    content = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw refused('fault_script_unreadable', `cannot read --script ${path}: ${errorText(error)}`, error);
  }
  const rules = z.array(rule).safeParse(content);
  if (rules.success) return rules.data;
  const problems = rules.error.issues.map(({ path: [index, ...field], message }) =>
    typeof index === 'number' ? `rule ${[index + 1, ...field].join('.')}: ${message}` : message,
  );
  throw refused('bad_fault_script', `--script ${path}: ${problems.join('; ')}`);
}
