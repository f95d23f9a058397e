import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { vi } from 'vitest';
import { type Compose, type ComposeService, readCompose } from './compose.js';
import type { Ended, Workplace } from './promptmill.js';
import { freePort } from './servers.js';

const CLI = join(import.meta.dirname, '../../dist/cli.js');

export type ServiceName = keyof Compose['services'];

/**
 * The services of `docker-compose.yml` as processes of this machine: the commands, variables, secrets and health checks
 * of the file, with paths, ports and addresses of containers changed into those of a test.
 */
export class ComposeProcesses {
  readonly #compose = readCompose();
  readonly #started: {
    readonly name: ServiceName;
    readonly child: ChildProcess;
    readonly end: Promise<Ended>;
  }[] = [];

  private constructor(
    private readonly work: Workplace,
    readonly ports: { readonly redis: number; readonly serve: number; readonly emulator: number },
  ) {
    mkdirSync(work.path('bin'));
    symlinkSync(CLI, work.path('bin/promptmill'));
  }

  /** @param secrets the contents of the secret files, by name */
  static async prepare(
    work: Workplace,
    secrets: (redisPort: number) => Readonly<Record<string, string>>,
  ): Promise<ComposeProcesses> {
    const [redis, serve, emulator] = [await freePort(), await freePort(), await freePort()];
    for (const [name, content] of Object.entries(secrets(redis)))
      work.write(`secrets/${name}`, `${content}\n`);
    return new ComposeProcesses(work, { redis, serve, emulator });
  }

  /** Starts a service so often as the file says. */
  start(name: ServiceName): void {
    const service = this.#compose.services[name];
    const here = service.command.map((word) => this.#here(word));
    const [command = '', ...args] =
      name === 'redis'
        ? [...here, '--port', String(this.ports.redis), '--bind', '127.0.0.1', '--dir', this.work.folder]
        : [process.execPath, CLI, ...here];
    for (let i = 0; i < (service.deploy?.replicas ?? 1); i++) {
      const child = this.#spawn(service, command, args);
      this.#started.push({ name, child, end: endOf(child) });
    }
  }

  /** Runs its health check once. */
  async isHealthy(name: ServiceName): Promise<boolean> {
    const { [name]: service } = this.#compose.services;
    const [kind, ...words] = service.healthcheck.test.map((word) => this.#here(word));
    const [command = '', ...args] = kind === 'CMD' ? words : ['sh', '-c', ...words];
    return (await endOf(this.#spawn(service, command, args))).code === 0;
  }

  /**
   * Resolves when its health check passes, which is run again and again, as an engine does.
   * @throws Error with what it said, when it ends before
   */
  async healthy(name: ServiceName): Promise<void> {
    const ends = this.#started.flatMap((started) =>
      started.name === name
        ? started.end.then(({ code, stderr }) => `${name} ended with ${code}:\n${stderr}`)
        : [],
    );
    const over = new AbortController();
    const passes = vi.waitFor(
      async () => {
        if (over.signal.aborted || (await this.isHealthy(name))) return null;
        throw new Error(`${name} is not healthy`);
      },
      { timeout: 100_000, interval: 500 },
    );
    const ended = await Promise.race([passes, ...ends]);
    over.abort();
    if (ended !== null) throw new Error(ended);
  }

  /** The environment of a service, for a command that is run in it by hand. */
  environmentOf(name: ServiceName): Record<string, string> {
    const { environment } = this.#compose.services[name];
    return Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, this.#here(value)]));
  }

  /** Sends SIGTERM to all, to Redis when the others have ended, as `docker compose stop` does, and tells how they ended. */
  async stop(): Promise<Ended[]> {
    const ended: Ended[] = [];
    for (const isLast of [false, true]) {
      const these = this.#started.filter(({ name }) => (name === 'redis') === isLast);
      for (const { child } of these) child.kill('SIGTERM');
      ended.push(...(await Promise.all(these.map(({ end }) => end))));
    }
    return ended;
  }

  /** Leaves no process behind. */
  async end(): Promise<void> {
    for (const { child, end } of this.#started) {
      child.kill('SIGKILL');
      await end;
    }
  }

  #spawn(service: ComposeService, command: string, args: readonly string[]): ChildProcess {
    const environment = Object.entries(service.environment).map(([key, value]) => [key, this.#here(value)]);
    return spawn(command, args, {
      cwd: this.work.folder,
      env: {
        PATH: `${this.work.path('bin')}:${process.env['PATH']}`,
        ...Object.fromEntries(environment),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** What a word of the file is on this machine. */
  #here(word: string): string {
    return word
      .replaceAll(/\$\{(\w+):([-?])([^}]*)\}/g, (_, name, kind, rest) =>
        name === 'PROMPTMILL_BASE_URL' ? `http://127.0.0.1:${this.ports.emulator}` : kind === '-' ? rest : '',
      )
      .replaceAll('/run/secrets/', `${this.work.path('secrets')}/`)
      .replaceAll('/work/', `${this.work.folder}/`)
      .replaceAll('0.0.0.0', '127.0.0.1')
      .replaceAll(/\b7300\b/g, String(this.ports.serve))
      .replaceAll(/\b4010\b/g, String(this.ports.emulator))
      .replaceAll('redis-cli', `redis-cli -p ${this.ports.redis}`);
  }
}

async function endOf(child: ChildProcess): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}
