import { readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { errorCode, errorText, UsageError } from '../core/errors.js';

export interface Environment {
  readonly baseUrl: string | undefined;
  /** First path segment of the service. @default 'openai' */
  readonly segment: string;
  /** Key 1 and key 2, unchecked; the key ring checks them. */
  readonly keys: readonly string[];
  /** @default 'embedded' */
  readonly queue: string;
  /** @default '.promptmill' */
  readonly stateDir: string;
  /** @default 'warn' */
  readonly logLevel: string;
  /** @default 'promptmill' */
  readonly dashboardUser: string;
  /** No default: without a password there is no dashboard. */
  readonly dashboardPassword: string | undefined;
  /** Any other variable, such as one named in a job file. */
  readonly variable: (name: string) => string | undefined;
  /** A key that a job names: also from the file that NAME_FILE names. */
  readonly secret: (name: string) => string | undefined;
  readonly names: readonly string[];
}

/** Variables that may be given as NAME_FILE; the address of a queue contains its password. */
const SECRETS = new Set([
  'PROMPTMILL_API_KEY',
  'PROMPTMILL_API_KEY_2',
  'PROMPTMILL_QUEUE',
  'PROMPTMILL_DASHBOARD_PASSWORD',
]);

/**
 * Reads the environment over the `.env` file of the working directory. Does not change `process.env`, so that
 * no child process inherits a key. A secret may be in a file named by NAME_FILE, as container engines provide
 * it.
 * @param dotenvPath null reads no file
 * @throws UsageError when `.env` or the file of a secret cannot be read, or a secret is given both ways
 */
export function readEnvironment(env: NodeJS.ProcessEnv, dotenvPath: string | null = '.env'): Environment {
  const file = dotenvPath === null ? {} : readDotenv(dotenvPath);
  // An empty variable counts as not set, as shells and compose files produce them.
  const plain = (name: string): string | undefined => env[name] || file[name] || undefined;
  const value = (name: string): string | undefined =>
    SECRETS.has(name) ? secretFile(name, plain) : plain(name);
  return {
    baseUrl: value('PROMPTMILL_BASE_URL'),
    segment: value('PROMPTMILL_SERVICE_SEGMENT') ?? 'openai',
    keys: [value('PROMPTMILL_API_KEY'), value('PROMPTMILL_API_KEY_2')].flatMap((key) => key ?? []),
    queue: value('PROMPTMILL_QUEUE') ?? 'embedded',
    stateDir: value('PROMPTMILL_STATE_DIR') ?? '.promptmill',
    logLevel: value('PROMPTMILL_LOG_LEVEL') ?? 'warn',
    dashboardUser: value('PROMPTMILL_DASHBOARD_USER') ?? 'promptmill',
    dashboardPassword: value('PROMPTMILL_DASHBOARD_PASSWORD'),
    variable: value,
    secret: (name) => secretFile(name, plain),
    names: Object.keys({ ...file, ...env }),
  };
}

function readDotenv(path: string): Record<string, string> {
  try {
    // The library's pattern is quadratic in the length of a run of white space.
    return parse(readFileSync(path, 'utf8').replace(/\s{100,}/g, '\n'));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return {};
    throw new UsageError('env_unreadable', `cannot read ${path}: ${errorText(error)}`);
  }
}

/**
 * A secret from a variable, or from the file named by NAME_FILE, without surrounding white space; empty is
 * not set.
 * @throws UsageError, never with the secret in it, when both are set or the file cannot be read
 */
function secretFile(name: string, value: (name: string) => string | undefined): string | undefined {
  const given = value(name);
  const path = value(`${name}_FILE`);
  if (path === undefined) return given;
  if (given !== undefined) {
    throw new UsageError(
      'secret_given_twice',
      `${name} and ${name}_FILE are both set`,
      'Unset one of them: the file is for containers, and keeps the secret out of the environment.',
    );
  }
  try {
    return readFileSync(path, 'utf8').trim() || undefined;
  } catch (error) {
    throw new UsageError(
      'secret_unreadable',
      `cannot read the file of ${name}_FILE: ${errorText(error)}`,
      `Make ${path} readable for the user of this process, or unset ${name}_FILE.`,
      { cause: error },
    );
  }
}
