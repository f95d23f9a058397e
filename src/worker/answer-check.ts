import { type AnswerReader, answerReader } from '../answer/answer.js';
import type { AnswerSpec } from '../core/answer-spec.js';
import type { CalledOutcome, Completed, Usage } from '../core/model.js';
import { withLastText } from '../prompt/prompt-text.js';
import { followUp } from '../prompt/template.js';
import type { ChunkRow, OnInvalid } from '../queue/chunk.js';
import type { Final } from '../service/verdict.js';

/** One for thousands of labels or a large schema is slow to build; chunks of an execution share their spec. */
const readers = new WeakMap<AnswerSpec, AnswerReader>();

/** @throws UsageError for an invalid JSON Schema */
function readerOf(spec: AnswerSpec): AnswerReader {
  const reader = readers.get(spec) ?? answerReader(spec);
  readers.set(spec, reader);
  return reader;
}

/**
 * For `answer.on_invalid`: checks answers before they are settled. A row whose answer does not fit gets the
 * follow-up prompt, and finally its own prompt at another deployment.
 */
export class AnswerCheck {
  /** Row → its last answer that did not fit. */
  readonly #earlier = new Map<number, Completed>();

  constructor(
    private readonly asks: OnInvalid,
    private readonly reader: AnswerReader = readerOf(asks.answer),
  ) {}

  /** Takes over the interim answers of earlier leases. */
  resume(interim: ReadonlyMap<number, CalledOutcome>): void {
    for (const [row, outcome] of interim) if (outcome.status === 'completed') this.#earlier.set(row, outcome);
  }

  next(row: ChunkRow): ChunkRow {
    const earlier = this.#earlier.get(row.row);
    if (earlier === undefined || this.isEscalated(row)) return row;
    const { text } = earlier.completion;
    const problem = this.#problemOf(earlier) ?? '';
    const prompt = withLastText(row.prompt, (asked) =>
      followUp(this.asks.prompt, { prompt: asked, answer: text, problem }),
    );
    return { ...row, prompt };
  }

  isEscalated(row: ChunkRow): boolean {
    return this.asks.deployment !== null && this.#askedOf(row) > this.asks.again;
  }

  /** Judges an outcome; usage and attempts include those of the earlier answers. */
  judge(row: ChunkRow, outcome: CalledOutcome): Final {
    if (outcome.status !== 'completed') return { kind: 'final', outcome: this.lasting(row, outcome) };
    const earlier = this.#earlier.get(row.row);
    const asked = this.#askedOf(row) + 1;
    const { again, deployment } = this.asks;
    const isLast = asked > again + (deployment === null ? 0 : 1);
    const answer_source = this.isEscalated(row) ? 'escalated' : 'asked_again';
    const judged: Completed =
      earlier === undefined ? outcome : { ...together(outcome, earlier, outcome), asked, answer_source };
    if (isLast || this.#problemOf(outcome) === null) return { kind: 'final', outcome: judged };
    const interim = { ...judged, asked };
    this.#earlier.set(row.row, interim);
    return { kind: 'final', outcome: interim, interim: asked };
  }

  /** When the last call brought no answer, the earlier one stands although it does not fit. */
  lasting(row: ChunkRow, outcome: CalledOutcome): CalledOutcome {
    const earlier = this.#earlier.get(row.row);
    if (earlier === undefined) return outcome;
    return { ...together(earlier, earlier, outcome), asked: this.#askedOf(row) + 1 };
  }

  /** Null where the answer fits, or cannot be read: then the collector reports why, since it is paid for. */
  #problemOf({ completion }: Completed): string | null {
    try {
      return this.reader.read(completion).problem?.message ?? null;
    } catch {
      return null;
    }
  }

  #askedOf({ row }: ChunkRow): number {
    return this.#earlier.get(row)?.asked ?? 0;
  }
}

/** `answer` with the usage and attempts of all calls for its row; `last` is the latest of them. */
function together(answer: Completed, earlier: Completed, last: CalledOutcome): Completed {
  const { completion } = answer;
  const usage = sum(usageOf(earlier), usageOf(last));
  const attempts = last.attempts + (earlier.asked ?? 0);
  const tiers = byName(earlier, last, ({ completion }) => [completion?.tier, completion?.tiers]);
  const endpoints = byName(earlier, last, (outcome) => [outcome.endpoint, outcome.endpoints]);
  return {
    ...answer,
    ...{ attempts, completion: { ...completion, usage, ...(tiers && { tiers }) } },
    ...(endpoints && { endpoints }),
  };
}

/**
 * The usage of two outcomes by the names of what each was paid to.
 * @param of the name of the last call, and the usage of all where there were more
 * @returns null where the job names none
 */
function byName(
  a: CalledOutcome,
  b: CalledOutcome,
  of: (
    outcome: CalledOutcome,
  ) => [last: string | undefined, all: { readonly [name: string]: Usage } | undefined],
): { readonly [name: string]: Usage } | null {
  const used = new Map<string, Usage>();
  for (const outcome of [a, b]) {
    const [last, all] = of(outcome);
    const usage = usageOf(outcome);
    const own = all ?? (last !== undefined && usage !== null ? { [last]: usage } : {});
    for (const [name, each] of Object.entries(own)) used.set(name, sum(used.get(name) ?? null, each) ?? each);
  }
  return used.size === 0 ? null : Object.fromEntries(used);
}

const usageOf = (outcome: CalledOutcome): Usage | null => outcome.completion?.usage ?? null;

function sum(a: Usage | null, b: Usage | null): Usage | null {
  if (a === null || b === null) return a ?? b;
  return {
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    completion_tokens: a.completion_tokens + b.completion_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    ...both('cached_tokens', a, b),
    ...both('reasoning_tokens', a, b),
    ...((a.estimated || b.estimated) && { estimated: true }),
  };
}

function both(name: 'cached_tokens' | 'reasoning_tokens', a: Usage, b: Usage): Partial<Usage> {
  const tokens = (a[name] ?? 0) + (b[name] ?? 0);
  return a[name] === undefined && b[name] === undefined ? {} : { [name]: tokens };
}
