import type { Redis } from 'ioredis';
import { errorText } from '../../core/errors.js';
import {
  type Cell,
  type Folder,
  type KeyValue,
  type Listed,
  LONGEST_TEXT,
  MOST_BYTES,
  MOST_LISTED,
} from '../key-value.js';
import { NOW } from './scripts.js';

/** In one slot of a cluster: hash of name → text, sorted sets of names by last write and by expiry, in ms. */
const keysOf = (folder: Folder): [string, string, string] => [
  `promptmill:board:{${folder}}:text`,
  `promptmill:board:{${folder}}:seen`,
  `promptmill:board:{${folder}}:until`,
];

const BEGIN = `${NOW}
local text, seen, untilKey = KEYS[1], KEYS[2], KEYS[3]
local function isOver(name) return tonumber(redis.call('ZSCORE', untilKey, name) or 0) <= now end
local function heldBy(name)
  local held = redis.call('HGET', text, name)
  return held and not isOver(name) and held
end
`;

/** Also removes up to 100 expired texts, so that nothing has to wait for their expiry. */
const BEGIN_WITHOUT_OLD = `${BEGIN}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', untilKey, '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('HDEL', text, name)
  redis.call('ZREM', seen, name)
  redis.call('ZREM', untilKey, name)
end
`;

/** KEYS text seen until; ARGV name. Returns the text and the microtime. */
const GET = `${BEGIN}
return {heldBy(ARGV[1]), time[1], time[2]}
`;

const WRITE = `
redis.call('HSET', text, ARGV[1], ARGV[2])
redis.call('ZADD', seen, now, ARGV[1])
redis.call('ZADD', untilKey, now + ARGV[3], ARGV[1])
`;

/** KEYS text seen until; ARGV name text ttl */
const PUT = `${BEGIN_WITHOUT_OLD}${WRITE}return 1`;

/** KEYS text seen until; ARGV name after ttl [before]. Returns the text, the microtime, and 1 if written. */
const SWAP = `${BEGIN_WITHOUT_OLD}
local held = heldBy(ARGV[1])
if held ~= (ARGV[4] or false) then return {held, time[1], time[2], 0} end
${WRITE}
return {ARGV[2], time[1], time[2], 1}
`;

/** KEYS text seen until; ARGV within most longest bytes. Returns name, text and age of each. */
const LIST = `${BEGIN_WITHOUT_OLD}
local since = '-inf'
if ARGV[1] ~= '' then since = now - ARGV[1] end
local found = {}
local left = tonumber(ARGV[4])
for _, name in ipairs(redis.call('ZREVRANGEBYSCORE', seen, '+inf', since, 'LIMIT', 0, ARGV[2])) do
  local size = redis.call('HSTRLEN', text, name)
  if size > 0 and size <= tonumber(ARGV[3]) and not isOver(name) then
    left = left - size
    if left < 0 then break end
    found[#found + 1] = name
    found[#found + 1] = redis.call('HGET', text, name)
    found[#found + 1] = now - tonumber(redis.call('ZSCORE', seen, name))
  end
end
return found
`;

/** KEYS text seen until; ARGV name */
const REMOVE = `
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[3], ARGV[1])
`;

/** Texts by name on Redis and Valkey. A full server refuses writes; reads and removals still work. */
export class RedisKeyValue implements KeyValue {
  constructor(private readonly client: Redis) {}

  async get(folder: Folder, name: string): Promise<Cell> {
    return cellOf(await this.#eval(GET, folder, [name]));
  }

  async put(folder: Folder, name: string, text: string, ttlMs: number): Promise<void> {
    await this.#eval(PUT, folder, [name, text, ttlMs]);
  }

  async swap(
    folder: Folder,
    name: string,
    before: string | null,
    after: string,
    ttlMs: number,
  ): Promise<Cell> {
    const args = [name, after, ttlMs, ...(before === null ? [] : [before])];
    return cellOf(await this.#eval(SWAP, folder, args));
  }

  async list(folder: Folder, withinMs?: number): Promise<readonly Listed[]> {
    const flat = await this.#eval(LIST, folder, [withinMs ?? '', MOST_LISTED, LONGEST_TEXT, MOST_BYTES]);
    const texts: Listed[] = [];
    for (let i = 0; i + 2 < flat.length; i += 3) {
      texts.push({
        name: String(flat[i]),
        text: String(flat[i + 1]),
        ageMs: Math.max(0, Number(flat[i + 2])),
      });
    }
    return texts;
  }

  async remove(folder: Folder, name: string): Promise<void> {
    await this.#eval(REMOVE, folder, [name]);
  }

  /** ioredis attaches the refused command with its arguments to the error; those must not reach a log. */
  async #eval(
    script: string,
    folder: Folder,
    args: readonly (string | number)[],
  ): Promise<readonly unknown[]> {
    try {
      const reply = await this.client.eval(script, 3, ...keysOf(folder), ...args);
      return Array.isArray(reply) ? reply : [];
    } catch (error) {
      throw new Error(errorText(error));
    }
  }
}

function cellOf([text, seconds, micros, written]: readonly unknown[]): Cell {
  return {
    text: text === null ? null : String(text),
    written: written === 1,
    now: Number(seconds) * 1000 + Number(micros) / 1000,
  };
}
