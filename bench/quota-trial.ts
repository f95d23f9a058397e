import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Emulator, startEmulator } from '../src/emulator/server.js';
import { startRedis } from '../test/support/servers.js';

export const QUOTAS = {
  requests: { unit: 'requests', perMinute: 600, setting: 'requestsPerMinute', limit: 'requests_per_minute' },
  tokens: { unit: 'tokens', perMinute: 90_000, setting: 'tokensPerMinute', limit: 'tokens_per_minute' },
} as const;
export type Case = keyof typeof QUOTAS;

/** Most tokens of an answer; with them a request of the token-bound case is admitted on about 280 tokens. */
const MAX_TOKENS = { requests: 5, tokens: 200 } as const;

const cli = join(import.meta.dirname, '../dist/cli.js');

export interface QuotaTrialOptions {
  readonly name: Case;
  /** Whether the jobs say the quota. */
  readonly configured: boolean;
  /** Runs of one deployment at the same time. */
  readonly workers: number;
  /** `redis` or `embedded`. */
  readonly store: string;
  /** Answers say nothing of the quota. */
  readonly silent: boolean;
  readonly latencyMs: number;
  /** The quota of the emulator for a minute, where it is not that of `QUOTAS`. */
  readonly perMinute: number | null;
  /** Told what the runs log. */
  readonly onLine: (line: string) => void;
}

/** Runs that share the quota of one emulator, from their first call until `end`. */
export class QuotaTrial {
  /** What the runs said of their pace: reason and calls a minute. */
  readonly changes: { readonly reason: string; readonly rate: number | null }[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'promptmill-quota-'));
  readonly #runs: ChildProcess[] = [];
  #factor = 1;

  private constructor(
    private readonly options: QuotaTrialOptions,
    private readonly emulator: Emulator,
    private readonly server: { url: string; stop(): Promise<void> } | null,
  ) {}

  /** Resolves with the first call. */
  static async begin(options: QuotaTrialOptions): Promise<QuotaTrial> {
    const { setting } = QUOTAS[options.name];
    const perMinute = options.perMinute ?? QUOTAS[options.name].perMinute;
    const emulator = await startEmulator({
      quota: { [setting]: perMinute },
      quotaHeaders: !options.silent,
      latency: { baseMs: options.latencyMs, perTokenMs: 1 },
    });
    const trial = new QuotaTrial(options, emulator, await serverOf(options.store));
    for (let i = 0; i < options.workers; i++) trial.#start(i);
    while (emulator.stats().requests === 0) await sleep(20);
    return trial;
  }

  #start(i: number): void {
    const run = spawn(process.execPath, [cli, 'run', this.#writeJob(i), '--quiet', '--log-level', 'info'], {
      env: {
        PATH: process.env['PATH'],
        PROMPTMILL_BASE_URL: this.emulator.url,
        PROMPTMILL_API_KEY: this.emulator.keys[0],
        PROMPTMILL_STATE_DIR: join(this.#folder, 'state'),
        PROMPTMILL_QUEUE: this.server?.url ?? 'embedded',
      },
      cwd: this.#folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#runs.push(run);
    if (run.stderr === null) return;
    createInterface(run.stderr).on('line', (line) => {
      this.options.onLine(line);
      if (!line.includes('the pace changed')) return;
      const { reason, calls_per_minute: rate } = JSON.parse(line);
      this.changes.push({ reason, rate });
    });
  }

  get #perMinute(): number {
    return this.options.perMinute ?? QUOTAS[this.options.name].perMinute;
  }

  /** Begins to count; the function that it returns tells what came since. */
  count(): () => { readonly 'used, %': number; readonly 'refused, %': number } {
    const { name } = this.options;
    const [before, began] = [this.#taken(), performance.now()];
    return () => {
      const after = this.#taken();
      const calls = after.admitted - before.admitted;
      const refused = after.refused - before.refused;
      const prompts = (after.promptTokens - before.promptTokens) / Math.max(1, calls);
      const used = name === 'requests' ? calls : calls * (prompts + MAX_TOKENS[name]);
      const allowed = (this.#perMinute * this.#factor * (performance.now() - began)) / 60_000;
      return {
        'used, %': percent(used / allowed),
        'refused, %': percent(refused / Math.max(1, calls + refused)),
      };
    };
  }

  #taken(): { admitted: number; refused: number; promptTokens: number } {
    const { by_status, usage } = this.emulator.stats();
    return {
      admitted: by_status['200'] ?? 0,
      refused: by_status['429'] ?? 0,
      promptTokens: usage.prompt_tokens,
    };
  }

  /** From now on the quota is so many times what it was in the beginning. */
  setQuota(factor: number): void {
    this.#factor = factor;
    this.emulator.setQuota({ [QUOTAS[this.options.name].setting]: this.#perMinute * factor });
  }

  /** Calls that were refused since the beginning. */
  get refused(): number {
    return this.#taken().refused;
  }

  /** Stops the runs as a person would, and waits for their ends. */
  async stop(): Promise<void> {
    const ends = this.#runs.map((run) => once(run, 'exit'));
    for (const run of this.#runs) run.kill('SIGTERM');
    await Promise.all(ends);
  }

  /** Rows that each run has written, after `stop`. */
  get rows(): number[] {
    return this.#tallies().map(({ total }) => total);
  }

  /** Rows that failed, after `stop`. */
  get failed(): number {
    return this.#tallies().reduce((sum, { failed }) => sum + failed, 0);
  }

  /** Of the manifests, which the stopped runs leave. */
  #tallies(): { total: number; failed: number }[] {
    return this.#runs.map((_, i) => {
      const { tally } = JSON.parse(readFileSync(join(this.#folder, `out-${i}.csv.run.json`), 'utf8'));
      return tally.rows;
    });
  }

  async end(): Promise<void> {
    for (const run of this.#runs) if (run.exitCode === null) run.kill('SIGKILL');
    await this.emulator.close();
    await this.server?.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Rows enough that no run ends before the measurement. */
  #writeJob(i: number): string {
    const { name, configured } = this.options;
    const { limit } = QUOTAS[name];
    const rows = Array.from(
      { length: 3_000 },
      (_, row) => `${row},"Item ${row} of ${i} came late, but it works."`,
    );
    const text = 'The strap is shorter than in the picture, and the colour is another one. '.repeat(4);
    const input = join(this.#folder, `rows-${i}.csv`);
    writeFileSync(input, `id,review\n${rows.join('\n')}\n`);
    const path = join(this.#folder, `job-${i}.yaml`);
    writeFileSync(
      path,
      JSON.stringify({
        name: `quota-${i}`,
        service: { deployment: 'lm-35-turbo-instruct' },
        input: { path: input },
        prompt: `${name === 'tokens' ? text : ''}Review: {{ review }}\nSentiment, positive or negative:`,
        parameters: { max_tokens: MAX_TOKENS[name], temperature: 0 },
        output: { path: join(this.#folder, `out-${i}.csv`) },
        limits: { concurrency: 20, ...(configured && { [limit]: this.#perMinute }) },
      }),
    );
    return path;
  }
}

async function serverOf(store: string): Promise<{ url: string; stop(): Promise<void> } | null> {
  if (store === 'embedded') return null;
  return startRedis({ args: ['--appendfsync', 'everysec'] });
}

export function percent(share: number): number {
  return Math.round(share * 1000) / 10;
}
