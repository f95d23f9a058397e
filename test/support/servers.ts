import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  chownSync,
  constants,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
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
  /** The line of the server's log after which it accepts connections. */
  readonly ready: RegExp;
  readonly user: { readonly uid: number; readonly gid: number } | null;
  /** What ends it at once, with all its processes. */
  readonly lastSignal: NodeJS.Signals;
}

export const haveRedis = (): boolean => redisCommand() !== null;
export const havePostgres = (): boolean => postgresFolder() !== null;

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
  return onFreePort('redis', (folder, port) => ({
    url: `redis://127.0.0.1:${port}`,
    launch: {
      command,
      args: [
        ...['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
        ...['--appendonly', appendonly ? 'yes' : 'no', '--appendfsync', 'no', ...args],
      ],
      folder,
      ready: /Ready to accept connections/,
      user: null,
      lastSignal: 'SIGKILL',
    },
  }));
}

/** The password of the only user of a private PostgreSQL. */
const PASSWORD = 'loopback-only';

/** Names the files of a new PostgreSQL, from which every server of a test run begins: to copy them takes a tenth of the time. */
const TEMPLATE = 'TEST_POSTGRES_TEMPLATE';

/** Makes the template at the beginning of a test run; what it returns removes it at the end. */
export default async function setup(): Promise<() => void> {
  // Asked again for each project of a configuration.
  if (!havePostgres() || process.env[TEMPLATE] !== undefined) return () => {};
  const folder = mkdtempSync(join(tmpdir(), 'promptmill-postgres-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const template = join(folder, 'template');
  try {
    await initdb(folder, template, postgresUser());
  } catch {
    // The suites that need a server say why.
    remove();
    return () => {};
  }
  process.env[TEMPLATE] = template;
  return remove;
}

type User = ReturnType<typeof unprivilegedUser>;

/** PostgreSQL refuses to run as root. */
const postgresUser = (): User | null => (process.getuid?.() === 0 ? unprivilegedUser() : null);

async function initdb(folder: string, data: string, user: User | null): Promise<void> {
  const bin = postgresFolder();
  if (bin === null) throw new Error(NO_POSTGRES);
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, PASSWORD);
  if (user !== null) for (const path of [folder, passwordFile]) chownSync(path, user.uid, user.gid);
  await promisify(execFile)(
    join(bin, 'initdb'),
    [
      ...['-D', data, '-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`],
      ...['--no-sync', '--encoding=UTF8', '--locale=C', '--wal-segsize=1'],
    ],
    { cwd: folder, ...user },
  );
}

const NO_POSTGRES = 'postgres is neither on the PATH nor in /usr/lib/postgresql';

/** Starts a PostgreSQL with one superuser, `postgres`, and a password. */
export async function startPostgres({ args = [] }: { args?: readonly string[] } = {}): Promise<Server> {
  const bin = postgresFolder();
  if (bin === null) throw new Error(NO_POSTGRES);
  const user = postgresUser();
  return onFreePort('postgres', async (folder, port) => {
    const data = join(folder, 'data');
    const template = process.env[TEMPLATE];
    if (template === undefined) await initdb(folder, data, user);
    else await promisify(execFile)('cp', ['-a', template, data]);
    if (user !== null) chownSync(folder, user.uid, user.gid);
    return {
      url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`,
      launch: {
        command: join(bin, 'postgres'),
        args: [
          ...['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', folder, '-F'],
          ...['-c', 'shared_buffers=16MB', '-c', 'log_min_messages=warning', ...args],
        ],
        folder,
        ready: /database system is ready to accept connections/,
        user,
        lastSignal: 'SIGQUIT',
      },
    };
  });
}

/** A free port can be taken by somebody else before the server has it; then another one is tried. */
async function onFreePort(
  name: string,
  plan: (
    folder: string,
    port: number,
  ) => Promise<{ url: string; launch: Launch }> | { url: string; launch: Launch },
): Promise<Server> {
  for (let attempt = 1; ; attempt++) {
    const folder = mkdtempSync(join(tmpdir(), `promptmill-${name}-`));
    try {
      const { url, launch } = await plan(folder, await freePort());
      return new ServerProcess(url, launch, await start(launch));
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      if (attempt === 3) throw error;
    }
  }
}

class ServerProcess implements Server {
  readonly #onExit = (): void => {
    this.child.kill(this.launch.lastSignal);
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

  async restart(signal: NodeJS.Signals = this.launch.lastSignal): Promise<void> {
    await this.kill(signal);
    this.child = await start(this.launch);
  }

  async stop(): Promise<void> {
    process.off('exit', this.#onExit);
    await this.kill('SIGCONT');
    await this.kill(this.launch.lastSignal);
    rmSync(this.launch.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

/** Starts a server and resolves when it says that it accepts connections. */
async function start({ command, args, folder, ready, user }: Launch): Promise<ChildProcess> {
  const child = spawn(command, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], ...user });
  const log: string[] = [];
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${command} ended with ${code}:\n${log.join('\n')}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        if (log.length < 100) log.push(line);
        if (ready.test(line)) resolve();
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

/** The folder with both `postgres` and `initdb`; the newest version of those that Debian keeps beside the PATH. */
function postgresFolder(): string | null {
  const root = '/usr/lib/postgresql';
  const versions = listed(root).sort((a, b) => Number(b) - Number(a));
  const folders = [...pathFolders(), ...versions.map((version) => join(root, version, 'bin'))];
  return (
    folders.find((folder) => isProgram(join(folder, 'postgres')) && isProgram(join(folder, 'initdb'))) ?? null
  );
}

function onPath(name: string): string | null {
  return (
    pathFolders()
      .map((folder) => join(folder, name))
      .find(isProgram) ?? null
  );
}

const pathFolders = (): string[] => (process.env['PATH'] ?? '').split(delimiter).filter(Boolean);

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function unprivilegedUser(): { uid: number; gid: number } {
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const account = ['postgres', 'nobody']
    .map((name) => accounts.find(([user]) => user === name))
    .find(Boolean);
  if (account === undefined) throw new Error('PostgreSQL does not run as root, and there is no other user');
  return { uid: Number(account[2]), gid: Number(account[3]) };
}
