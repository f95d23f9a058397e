import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { pino } from 'pino';
import type { BatchFaults } from '../../../src/emulator/batches/settings.js';
import type { EmulatorOptions } from '../../../src/emulator/options.js';
import { startEmulator } from '../../../src/emulator/server.js';
import { defineJob, retry, run } from '../../../src/index.js';
import { Workplace } from '../../support/promptmill.js';

const PRICES = { prompt: 1, completion: 2, batch: 0.4 };

export type Emulator = Awaited<ReturnType<typeof startEmulator>>;

export interface Line {
  readonly [field: string]: unknown;
  readonly tier?: string;
  readonly status?: string;
  readonly answer?: unknown;
}

let names = 0;

/** Jobs with the batch tier, and emulators whose batches take a tenth of a second. */
export class Workbench {
  readonly #work = new Workplace();
  readonly #ends: (() => Promise<void>)[] = [];

  async emulated(faults: BatchFaults = {}, more: EmulatorOptions = {}): Promise<Emulator> {
    const batches = { seconds: 0.1, faults, ...more.batches };
    const emulator = await startEmulator({ latency: { baseMs: 1, perTokenMs: 0 }, ...more, batches });
    this.#ends.push(() => emulator.close());
    return emulator;
  }

  /** @param more of the job */
  begin({ url, keys }: Pick<Emulator, 'url' | 'keys'>, more: object = {}) {
    const name = `batch-${++names}`;
    const output = this.#work.path(`${name}.jsonl`);
    const state = this.#work.path(`state-${name}`);
    const env = {
      ...{ PROMPTMILL_BASE_URL: url, PROMPTMILL_API_KEY: keys[0] ?? '', PROMPTMILL_STATE_DIR: state },
    };
    const jobOf = (changes: object) => {
      const { tier = 'batch', service = {}, ...others } = { ...more, ...changes } as Record<string, object>;
      return defineJob({
        name,
        service: { operation: 'chat', deployment: 'lm-35-turbo', tier, ...service },
        prompt: 'Is this a positive review? {{ text }}',
        prices: PRICES,
        ...others,
      } as Parameters<typeof defineJob>[0]);
    };
    const said: string[] = [];
    const log = pino(
      { level: 'info' },
      { write: (line: string) => said.push((JSON.parse(line) as { msg: string }).msg) },
    );
    const options = { log, env };
    return {
      ...{ output, state, said },
      left: () => (existsSync(`${state}/batches`) ? readdirSync(`${state}/batches`) : []),
      go: async (rows: readonly object[] | string, changes: object = {}, more: object = {}) => {
        const { summary } = await run(jobOf(changes), { rows, output, ...options, ...more } as never);
        return summary;
      },
      retry: async (rows: readonly object[] | string, more: object = {}) => {
        const { summary } = await retry(output, { job: jobOf({}), rows, ...options, ...more } as never);
        return summary;
      },
      lines: (): Line[] =>
        readFileSync(output, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
    };
  }

  async rest(): Promise<void> {
    for (const end of this.#ends.splice(0)) await end();
    this.#work.remove();
  }

  path(name: string): string {
    return this.#work.path(name);
  }
}

export const rowsOf = (count: number, words = ''): { id: number; text: string }[] =>
  Array.from({ length: count }, (_, i) => ({
    id: i + 1,
    text: `Number ${i + 1} is ${i % 3 === 0 ? 'fine' : 'poor'}.${words}`,
  }));

/** By the emulator's own count. */
export function billedBy({ stats }: Emulator): { readonly tokens: number; readonly cost: number } {
  const { usage, by_tier } = stats();
  const cost = ({ prompt_tokens: prompt, completion_tokens: completion }: typeof usage) =>
    (prompt * PRICES.prompt + completion * PRICES.completion) / 1000;
  const batch = by_tier['batch'];
  return {
    tokens: usage.prompt_tokens + usage.completion_tokens,
    cost: cost(usage) - (batch ? cost(batch) * (1 - PRICES.batch) : 0),
  };
}
