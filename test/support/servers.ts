import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { errorCode } from '../../src/core/errors.js';

/** A private server of one test file: on a loopback port of its own, with its files in a temporary folder. */
export interface Server {
  readonly url: string;
  readonly pid: number;
  /** Sends a signal. Resolves at once for SIGSTOP and SIGCONT, and when the server has ended for all others. */
  kill(signal: NodeJS.Signals): Promise<void>;
  /** Ends the server by a signal and starts it again on the same port and the same files. */
  restart(signal?: NodeJS.Signals): Promise<void>;
  /** Ends the server and removes its files. */
  stop(): Promise<void>;
}

interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly folder: string;
}

export const haveRedis = (): boolean => redisCommand() !== null;

export interface RedisOptions {
  /** @default true */
  readonly appendonly?: boolean;
  /** Further arguments, such as `--maxmemory 1mb`. */
  readonly args?: readonly string[];
}

/**
 * Starts a Redis or a Valkey that keeps an append-only file. Each write is in the file before its reply, so what a test has
 * seen acknowledged outlives a killed server. It is not synced, which only a loss of power would need: to wait for the disk
 * at each write took most of the time of some tests. With `everysec` the server answers before it writes while it syncs.
 */
export async function startRedis({ appendonly = true, args = [] }: RedisOptions = {}): Promise<Server> {
  const command = redisCommand();
  if (command === null) throw new Error('neither redis-server nor valkey-server is on the PATH');
  for (let attempt = 1; ; attempt++) {
    const folder = mkdtempSync(join(tmpdir(), 'promptmill-redis-'));
    const port = await freePort();
    const launch = {
      command,
      args: [
        ...['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
        ...['--appendonly', appendonly ? 'yes' : 'no', '--appendfsync', 'no', ...args],
      ],
      folder,
    };
    try {
      return new RedisProcess(`redis://127.0.0.1:${port}`, launch, await start(launch));
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      // Somebody else may have taken the port before the server had it.
      if (attempt === 3) throw error;
    }
  }
}

class RedisProcess implements Server {
  readonly #onExit = (): void => {
    this.child.kill('SIGKILL');
    rmSync(this.launch.folder, { recursive: true, force: true });
  };

  constructor(
    readonly url: string,
    private readonly launch: Launch,
    private child: ChildProcess,
  ) {
    // A test process that ends without its afterAll takes its servers with it.
    process.on('exit', this.#onExit);
  }

  get pid(): number {
    if (this.child.pid === undefined) throw new Error('the server has no process');
    return this.child.pid;
  }

  async kill(signal: NodeJS.Signals): Promise<void> {
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') {
      this.child.kill(signal);
      return;
    }
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }

  async restart(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.kill(signal);
    this.child = await start(this.launch);
  }

  async stop(): Promise<void> {
    process.off('exit', this.#onExit);
    await this.kill('SIGCONT');
    await this.kill('SIGKILL');
    rmSync(this.launch.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

/** Starts a server and resolves when it says that it accepts connections. */
async function start({ command, args, folder }: Launch): Promise<ChildProcess> {
  const child = spawn(command, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const log: string[] = [];
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${command} ended with ${code}:\n${log.join('\n')}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        if (log.length < 100) log.push(line);
        if (/Ready to accept connections/.test(line)) resolve();
      });
    }
  });
  return child;
}

/**
 * Ports that no system gives out by itself: of the others any connection, and any server that takes what it gets, can have
 * the port of a server that is down for a while.
 */
const OWN_PORTS = { from: 10_000, count: 20_000 };

/** A port of this machine that nobody has at this moment, and that nobody gets by chance later on. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = OWN_PORTS.from + Math.floor(Math.random() * OWN_PORTS.count);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch (error) {
      if (errorCode(error) === 'EADDRINUSE') continue;
      throw error;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}

function redisCommand(): string | null {
  return onPath('redis-server') ?? onPath('valkey-server');
}

function onPath(name: string): string | null {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean);
  return folders.map((folder) => join(folder, name)).find(isProgram) ?? null;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
