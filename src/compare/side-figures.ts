import { type Latency, percentiles, withLatencies } from '../account/latency.js';
import type { StoredSummary } from '../account/summary.js';
import { isObject } from '../core/json.js';
import type { Json } from '../core/model.js';
import type { OutputRecord } from '../output/reader.js';

const KINDS = ['prompt_tokens', 'completion_tokens', 'total_tokens'] as const;

type Tokens = StoredSummary['usage'];

/** Usage of a run from its summary; without one, from its records as far as they have it. */
export class SideFigures {
  rows = 0;
  #tokens: Tokens | null = null;
  #latency: Latency = null;

  constructor(private readonly summary: StoredSummary | null) {}

  /** Passes the records through and counts them. */
  async *over(records: AsyncIterable<readonly OutputRecord[]>): AsyncGenerator<readonly OutputRecord[]> {
    for await (const batch of records) {
      this.rows += batch.length;
      if (this.summary === null) this.#add(batch);
      yield batch;
    }
  }

  /** `null` if unknown. */
  get tokens(): Tokens | null {
    return this.summary?.usage ?? this.#tokens;
  }

  /** In the currency of the prices; `null` without prices or summary. */
  get cost(): number | null {
    return this.summary?.cost ?? null;
  }

  get latency_ms(): StoredSummary['latency_ms'] {
    return this.summary?.latency_ms ?? percentiles(this.#latency);
  }

  #add(batch: readonly OutputRecord[]): void {
    const latencies: number[] = [];
    for (const record of batch) {
      const latency = numberOf(record.get('latency_ms'));
      if (latency !== null) latencies.push(latency);
      for (const kind of KINDS) {
        const tokens = numberOf(tokensOf(record, kind));
        if (tokens === null) continue;
        this.#tokens ??= { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
        this.#tokens = { ...this.#tokens, [kind]: this.#tokens[kind] + tokens };
      }
    }
    this.#latency = withLatencies(this.#latency, latencies);
  }
}

function tokensOf(record: OutputRecord, kind: (typeof KINDS)[number]): Json | undefined {
  const usage = record.get('usage');
  return isObject(usage) ? usage[kind] : record.get(kind);
}

/** An edited record may have anything there. */
function numberOf(value: Json | undefined): number | null {
  const number = typeof value === 'string' && value !== '' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) && number >= 0 ? number : null;
}
