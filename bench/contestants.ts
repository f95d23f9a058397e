import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { haveRedis, type Server, startRedis } from '../test/support/servers.js';
import { installForeign } from './foreign.js';
import type { Command } from './meter.js';

export const CLI = join(import.meta.dirname, '../dist/cli.js');

/** What a contestant works on. */
export interface Task {
  /** Of the endpoint. */
  readonly url: string;
  /** Where everything of this bench is. */
  readonly folder: string;
  readonly input: string;
  readonly output: string;
  /** For Promptmill. */
  readonly job: string;
  readonly concurrency: number;
  /** For Promptmill. */
  readonly stateDir: string;
}

export interface Contestant {
  readonly id: string;
  readonly title: string;
  /** What the rows of a measurement are divided by, so that a slow one takes no longer than the others. */
  readonly slow: number;
  /** Port of its store, `ledger` where that is a file; null without a store. */
  readonly store: string | 'ledger' | null;
  command(task: Task): Command;
  stop?(): Promise<void>;
}

/** A contestant that is to be made ready. */
interface Entry {
  readonly id: string;
  readonly title: string;
  /** @throws Error with the reason for which it cannot take part */
  ready(about: Pick<Contestant, 'id' | 'title'>): Promise<Contestant>;
}

const loop =
  (file: string, foreign: boolean, slow = 1): Entry['ready'] =>
  async (about) => {
    if (foreign) await installed();
    return {
      ...about,
      slow,
      store: null,
      command: ({ url, input, output, concurrency }) => ({
        args: [join(import.meta.dirname, 'loops', file), `${url}/v1`, input, output, String(concurrency)],
        env: {},
      }),
    };
  };

/** `promptmill run` on a server, or on the embedded store. */
export function promptmill(server: Server | null, { url, job, input, output, stateDir }: Task): Command {
  return {
    args: [
      ...[CLI, 'run', job, '--quiet', '--overwrite', '--input', input, '--output', output],
      ...['--queue', server?.url ?? 'embedded'],
    ],
    env: {
      PROMPTMILL_BASE_URL: url,
      PROMPTMILL_API_KEY: 'bench',
      PROMPTMILL_STATE_DIR: stateDir,
    },
  };
}

const onStore =
  (start: () => Promise<Server | null>): Entry['ready'] =>
  async (about) => {
    const server = await start();
    return {
      ...about,
      slow: 1,
      store: server === null ? 'ledger' : new URL(server.url).port,
      command: (task) => promptmill(server, task),
      stop: async () => await server?.stop(),
    };
  };

const promptfoo: Entry['ready'] = async (about) => {
  await installed();
  return {
    ...about,
    slow: 10,
    store: null,
    command: ({ url, folder, input, output, concurrency }) => {
      const config = join(folder, 'promptfoo.json');
      writeFileSync(
        config,
        JSON.stringify({
          providers: [
            {
              id: 'openai:completion:bench',
              config: {
                apiBaseUrl: `${url}/v1`,
                apiKey: 'bench',
                max_tokens: 5,
                temperature: 0,
                stop: ['\n'],
              },
            },
          ],
          prompts: [
            'Classify the sentiment of the review as positive, negative or neutral.\nReview: {{review}}\nSentiment:',
          ],
          tests: `file://${input}`,
        }),
      );
      return {
        args: [
          join(import.meta.dirname, 'node_modules/promptfoo/dist/src/entrypoint.js'),
          ...['eval', '-c', config, '-o', output, '-j', String(concurrency)],
          ...['--no-cache', '--no-write', '--no-table', '--no-progress-bar'],
        ],
        env: {
          PROMPTFOO_CONFIG_DIR: join(folder, 'promptfoo'),
          PROMPTFOO_DISABLE_TELEMETRY: '1',
          PROMPTFOO_DISABLE_UPDATE: '1',
          // Its log files are closed while it still writes to them, which ends it with an error now and then.
          PROMPTFOO_DISABLE_DEBUG_LOG: '1',
          PROMPTFOO_DISABLE_ERROR_LOG: '1',
          PROMPTFOO_DISABLE_REMOTE_GENERATION: '1',
        },
      };
    },
  };
};

/** Everybody, in the order of a round. The first is what the others are compared with. */
export const ENTRIES: readonly Entry[] = [
  { id: 'bare', title: 'bare undici loop', ready: loop('bare.js', false) },
  { id: 'fetch', title: '`fetch` + p-limit', ready: loop('fetch.js', false) },
  { id: 'openai', title: 'OpenAI SDK 6 + p-limit', ready: loop('openai.js', true) },
  { id: 'langchain', title: 'LangChain.js `.batch`', ready: loop('langchain.js', true, 5) },
  { id: 'promptfoo', title: 'promptfoo', ready: promptfoo },
  { id: 'redis', title: 'Promptmill on Redis', ready: onStore(redis) },
  { id: 'embedded', title: 'Promptmill, embedded', ready: onStore(async () => null) },
];

/** As a deployment would have it: what is acknowledged is on disk within a second. */
export async function redis(): Promise<Server> {
  if (!haveRedis()) throw new Error('no redis-server on this machine');
  return startRedis({ args: ['--appendfsync', 'everysec'] });
}

let install: Promise<string | null> | null = null;
async function installed(): Promise<void> {
  install ??= installForeign();
  const reason = await install;
  if (reason !== null) throw new Error(reason);
}
