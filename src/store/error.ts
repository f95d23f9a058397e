import { errorCode, errorText, FILE_LIMIT_REMEDY, UsageError } from '../core/errors.js';

/**
 * The only place that knows the replies of Redis.
 *
 * | kind | examples | what happens |
 * | --- | --- | --- |
 * | `away` | no connection, starting up, a busy script | waits up to `limits.give_up_after` |
 * | `full` | out of memory or disk | waits likewise: workers or its operator make room (fault 34) |
 * | `refusing` | read-only replica, too few replicas, lost password or right | waits less (faults 33, 81) |
 * | `broken` | key of another type | stops the run: needs repair (fault 81) |
 */
export interface StoreError {
  readonly kind: 'away' | 'full' | 'refusing' | 'broken';
  /** Stable, in snake_case. */
  readonly code: string;
  /** Follows the address in a sentence: `redis://host is a read-only replica (READONLY …)`. */
  readonly words: string;
  readonly remedy: string;
}

/** `means` is followed by the store's own words. */
const MEANINGS = {
  away: {
    kind: 'away',
    code: 'queue_unavailable',
    means: 'does not answer',
    remedy: 'Start the server, or repair the connection to it.',
  },
  full: {
    kind: 'full',
    code: 'queue_full',
    means: 'has no room left',
    remedy: 'Give it more memory or disk space.',
  },
  readOnly: {
    kind: 'refusing',
    code: 'queue_read_only',
    means: 'is read-only',
    remedy: 'Give the address of the primary, or make this server one.',
  },
  notReplicated: {
    kind: 'refusing',
    code: 'queue_not_replicated',
    means: 'takes no writes while it has too few replicas',
    remedy: 'Bring its replicas back, or lower min-replicas-to-write.',
  },
  wrongPassword: {
    kind: 'refusing',
    code: 'queue_refused',
    means: 'refuses this user or password',
    remedy: 'Give a user and a password that are valid, as redis://USER:PASSWORD@HOST:PORT.',
  },
  notAllowed: {
    kind: 'refusing',
    code: 'queue_refused',
    means: 'does not allow this user what the queue needs',
    remedy: 'Give a user that has these rights, as redis://USER:PASSWORD@HOST:PORT.',
  },
  otherType: {
    kind: 'broken',
    code: 'queue_damaged',
    means: 'has something else under a name of the queue',
    remedy: 'Delete or rename those keys, or use another database of the server (redis://HOST:PORT/1).',
  },
  noDescriptor: {
    kind: 'refusing',
    code: 'too_many_open_files',
    means: 'cannot be reached: this process may open no more files',
    remedy: FILE_LIMIT_REMEDY,
  },
} as const satisfies Record<string, Omit<StoreError, 'words'> & { readonly means: string }>;

type Meaning = keyof typeof MEANINGS;

/** First word of the reply: https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors */
const OF_REDIS: ReadonlyMap<string, Meaning> = new Map([
  ['READONLY', 'readOnly'],
  ['MASTERDOWN', 'readOnly'],
  ['NOREPLICAS', 'notReplicated'],
  ['NOAUTH', 'wrongPassword'],
  ['WRONGPASS', 'wrongPassword'],
  ['NOPERM', 'notAllowed'],
  ['WRONGTYPE', 'otherType'],
  ['OOM', 'full'],
  ['MISCONF', 'full'],
  ['LOADING', 'away'],
  ['BUSY', 'away'],
  ['CLUSTERDOWN', 'away'],
  ['TRYAGAIN', 'away'],
]);

/** System errors of the network; no file error has one of these codes. */
const OF_NETWORK =
  /^(ECONN(REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|E(HOST|NET)(UNREACH|DOWN)|ENETRESET|EADDRNOTAVAIL|ENOTCONN|EPROTO|ENOTFOUND|EAI_.*)$/;

/** What ioredis says, without a code, when a connection ends during a command. */
const CONNECTION_LOST = /^(Connection is closed|connect ETIMEDOUT)/;

/** First word of the reply. In a script error of Redis 6 it comes after the position in the script. */
const WORD = /^(?:ERR Error running script .*?@user_script: ?\d+: -?)?([A-Z]{2,})\b/;
/** The position in a script; it tells a user nothing. */
const PLACE = / script: [0-9a-f]+, on @user_script:\d+\.?$/;
const OF_OLD_AUTH = /^ERR (AUTH|invalid password|Client sent AUTH)/;

/** @returns null for what is no error of the store: a defect, or a fault that Promptmill has no plan for */
export function storeErrorOf(error: unknown): StoreError | null {
  if (!(error instanceof Error)) return null;
  const meaning = meaningOf(error);
  if (meaning === null) return null;
  const { means, ...known } = MEANINGS[meaning];
  // A connection refused on IPv4 and on IPv6 is one error without a message.
  const said = error.message.replace(PLACE, '').trim() || errorCode(error);
  return { ...known, words: `${means} (${said})` };
}

function meaningOf(error: Error): Meaning | null {
  const code = errorCode(error);
  if (/^E[MN]FILE$/.test(code) && 'syscall' in error && error.syscall === 'connect') return 'noDescriptor';
  if (OF_NETWORK.test(code)) return 'away';
  if (CONNECTION_LOST.test(error.message)) return 'away';
  if (OF_OLD_AUTH.test(error.message)) return 'wrongPassword';
  return OF_REDIS.get(WORD.exec(error.message)?.[1] ?? '') ?? null;
}

/** Leaves out the cause on purpose: ioredis attaches the refused command, and with AUTH that is a password. */
export function openingErrorOf(error: unknown, shown: string): UsageError {
  if (error instanceof UsageError) return error;
  const known = storeErrorOf(error);
  if (known !== null && known.kind !== 'away')
    return new UsageError(known.code, `${shown} ${known.words}`, known.remedy);
  // A connection refused on IPv4 and on IPv6 is one error without a message.
  const reason = errorText(error) || errorCode(error);
  return new UsageError(
    'queue_unreachable',
    `cannot reach ${shown}: ${reason}`,
    'Start the server, correct the address, or use --queue embedded.',
  );
}
