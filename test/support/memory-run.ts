import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { pino } from 'pino';
import type { StoredSummary } from '../../src/account/summary.js';
import { readEnvironment } from '../../src/config/environment.js';
import { invalidJob } from '../../src/config/job-problem.js';
import { jobSchema } from '../../src/config/job-schema.js';
import type { RunFlags, Settings } from '../../src/config/settings.js';
import { Halt } from '../../src/core/halt.js';
import { type OpenedJob, openedJob } from '../../src/library/opened-job.js';
import { service } from '../../src/library/service.js';
import { exitOf, type RunResult, runJob } from '../../src/run/pipeline.js';
import type { OfflineContext } from '../../src/run/run-context.js';
import type { createClient } from '../../src/service/client.js';
import { mapped } from '../../src/service/endpoint-spec.js';
import type { Exchange } from '../../src/service/exchange.js';
import type { Store } from '../../src/store/store.js';
import { MemoryStore } from './memory-store.js';
import { replyText, type Script, ScriptedCalls, type ScriptedRequest } from './scripted-service.js';

/** A run that has ended. */
export interface MemoryRun {
  /** The records, as JSONL has them; none when the job names a file for them. */
  // biome-ignore lint/suspicious/noExplicitAny: as of JSON.parse
  readonly lines: readonly any[];
  readonly summary: StoredSummary;
  /** What the command would exit with. */
  readonly code: ReturnType<typeof exitOf>;
  readonly result: RunResult;
  /** What the command would print, a line each. */
  readonly said: readonly string[];
}

export interface MemoryOptions {
  /** As on the command line. */
  readonly flags?: RunFlags;
  /** @default the address and the key of a service that nobody can reach */
  readonly env?: Readonly<Record<string, string>>;
  readonly halt?: Halt;
  /** What the run has for a store. @default the machine's own */
  readonly storeOf?: (own: Store) => Store;
  /** What is done with the job. @default runJob */
  readonly work?: (settings: Settings, context: OfflineContext) => Promise<RunResult>;
}

interface BegunOptions
  extends Pick<MemoryOptions, 'halt' | 'storeOf' | 'work'>,
    Pick<OfflineContext, 'onBegun'> {
  /** What standard input has. */
  readonly text?: string;
}

/** Rows of a run: objects, or the text of a CSV file. */
export type MemoryRows = readonly object[] | string;

/**
 * A machine without disk, server and network, for what a run decides: it takes the one path of all runs, with a ledger
 * and a queue in memory, and with a function for the service. Its runs come one after the other, as on a machine whose
 * store lasts. A job that names an output or an input has that file on the disk.
 */
export class MemoryMachine {
  readonly #store = new MemoryStore();
  readonly #calls = new ScriptedCalls();

  constructor(private readonly script: Script = () => ({})) {}

  /** Every call so far. */
  get requests(): readonly ScriptedRequest[] {
    return this.#calls.requests;
  }

  /** Calls so far for a prompt, or for all. */
  calls(prompt?: string): number {
    return this.#calls.of(prompt);
  }

  /**
   * @param job as in a job file; `service`, `input` and `output` may be left out
   * @throws what keeps the run from starting
   */
  async run(job: object, rows: MemoryRows | null = null, options: MemoryOptions = {}): Promise<MemoryRun> {
    const { flags = {}, env = {} } = options;
    const isText = typeof rows === 'string';
    const text = isText ? rows : (rows ?? []).map((row) => `${JSON.stringify(row)}\n`).join('');
    const given = { path: '-', format: isText ? 'csv' : 'jsonl' };
    const { input = {}, output = {}, ...others }: { input?: object; output?: object } = job;
    const fields = {
      service: { deployment: 'lm-35-turbo-instruct' },
      prompt: 'row {{ id }}',
      report: false,
      ...others,
      input: { ...(rows !== null && given), ...input },
      output: { path: '-', ...(!('path' in output) && { format: 'jsonl' }), ...output },
    };
    const parsed = jobSchema.safeParse(fields, { reportInput: true });
    if (!parsed.success) throw invalidJob(parsed.error, () => 'job');
    const environment = readEnvironment({ ...ENVIRONMENT, ...env }, null);
    return await this.begin(openedJob({ ...parsed.data, name: 'job' }, environment, flags), {
      ...options,
      text,
    });
  }

  /**
   * Begins a job that was opened already, for example from a job file.
   * @throws what keeps the run from starting, or ends it
   */
  async begin({ settings, environment }: OpenedJob, given: BegunOptions = {}): Promise<MemoryRun> {
    const { text = '', halt = new Halt(), storeOf = (own) => own, work = runJob, onBegun } = given;
    const said: string[] = [];
    const say = (line: string): void => void said.push(line);
    const stdout = new PassThrough();
    const written: Buffer[] = [];
    stdout.on('data', (piece: Buffer) => written.push(piece));
    const { endpoints } = await service(settings, environment, say);
    const offline: OfflineContext = {
      halt,
      log: pino({ level: 'silent' }),
      stdin: Readable.from([text]),
      stdout,
      stderr: new PassThrough().resume(),
      quiet: true,
      say,
      ...(onBegun && { onBegun }),
      openStore: async () => storeOf(this.#store.open()),
      connect: async () => ({
        ...offline,
        endpoints: mapped(endpoints, (endpoint) => ({ ...endpoint, connect: this.#connect })),
      }),
    };
    const result = await work(settings, offline);
    const lines = Buffer.concat(written).toString('utf8').split('\n');
    return {
      lines: lines.filter((line) => line !== '').map((line) => JSON.parse(line)),
      summary: result.summary,
      code: exitOf(result),
      result,
      said,
    };
  }

  readonly #connect: typeof createClient = ({ url }) => {
    const left = new AbortController();
    const { pathname, search } = new URL(url);
    const target = `${pathname}${search}`;
    return {
      call: async (text) => {
        const request = this.#calls.add({
          method: 'POST',
          url: target,
          headers: {},
          text,
          left: left.signal,
        });
        return exchangeOf(await this.script(request), target);
      },
      close: async () => left.abort(),
    };
  };
}

/** One run on a machine of its own. */
export const memoryRun = (
  job: object,
  rows: MemoryRows,
  script?: Script,
  options?: MemoryOptions,
): Promise<MemoryRun> => new MemoryMachine(script).run(job, rows, options);

function exchangeOf(reply: Awaited<ReturnType<Script>>, url: string): Exchange {
  const latency_ms = 1;
  if (reply === 'reset')
    return {
      kind: 'failure',
      phase: 'exchange',
      code: 'reset',
      message: 'the connection was reset',
      latency_ms,
    };
  if (typeof reply === 'string')
    throw new Error(`a service in memory does not ${reply}: start a scripted one`);
  const { status = 200, headers = {}, text: _, json: __, answer: ___, ...broken } = reply;
  if (Object.keys(broken).length > 0)
    throw new Error('a service in memory breaks no answer: start a scripted one');
  return { kind: 'response', status, headers, body: replyText(reply, url), latency_ms };
}

/** Where inputs are kept until they are read, as those of a program are, and outcomes that later runs take over. */
const stateDir = mkdtempSync(join(tmpdir(), 'promptmill-memory-'));
process.on('exit', () => rmSync(stateDir, { recursive: true, force: true }));

export const ENVIRONMENT = {
  PROMPTMILL_BASE_URL: 'http://127.0.0.1:9',
  PROMPTMILL_API_KEY: 'a-key-for-tests-only',
  PROMPTMILL_STATE_DIR: stateDir,
};
