import type { Redis } from 'ioredis';
import { type Board, LONGEST_POST, MOST_BYTES, MOST_POSTS, type Posted, type PostKind } from '../board.js';

/**
 * Keys of a kind, all in one slot of a cluster: `text`, hash of id → post; `seen` and `until`, sorted sets of the ids by
 * the server's milliseconds at which they were put up and at which they come down.
 */
const keysOf = (kind: PostKind): [string, string, string] => [
  `promptmill:board:{${kind}}:text`,
  `promptmill:board:{${kind}}:seen`,
  `promptmill:board:{${kind}}:until`,
];

/** Takes down what is over, a bounded number at a time. Nobody has to be there at the moment when it is. */
const NOW_WITHOUT_OLD = `
local text, seen, untilKey = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', untilKey, '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('HDEL', text, id)
  redis.call('ZREM', seen, id)
  redis.call('ZREM', untilKey, id)
end
`;

/** KEYS text seen until; ARGV id text ttl */
const POST = `${NOW_WITHOUT_OLD}
redis.call('HSET', text, ARGV[1], ARGV[2])
redis.call('ZADD', seen, now, ARGV[1])
redis.call('ZADD', untilKey, now + ARGV[3], ARGV[1])
return 1
`;

/** KEYS text seen until; ARGV within most longest bytes. Returns id, text and age of each. */
const POSTS = `${NOW_WITHOUT_OLD}
local since = '-inf'
if ARGV[1] ~= '' then since = now - ARGV[1] end
local found = {}
local left = tonumber(ARGV[4])
for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', seen, '+inf', since, 'LIMIT', 0, ARGV[2])) do
  local size = redis.call('HSTRLEN', text, id)
  local over = tonumber(redis.call('ZSCORE', untilKey, id) or 0) <= now
  if size > 0 and size <= tonumber(ARGV[3]) and not over then
    left = left - size
    if left < 0 then break end
    found[#found + 1] = id
    found[#found + 1] = redis.call('HGET', text, id)
    found[#found + 1] = now - tonumber(redis.call('ZSCORE', seen, id))
  end
end
return found
`;

/** KEYS text seen until; ARGV id */
const REMOVE = `
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[3], ARGV[1])
`;

/** The board on Redis and Valkey. A full server refuses posts; what hangs there can be read and taken down. */
export class RedisBoard implements Board {
  constructor(private readonly client: Redis) {}

  async post(kind: PostKind, id: string, text: string, ttlMs: number): Promise<void> {
    await this.#eval(POST, kind, [id, text, ttlMs]);
  }

  async posts(kind: PostKind, withinMs?: number): Promise<readonly Posted[]> {
    const reply = await this.#eval(POSTS, kind, [withinMs ?? '', MOST_POSTS, LONGEST_POST, MOST_BYTES]);
    const flat: unknown[] = Array.isArray(reply) ? reply : [];
    const posts: Posted[] = [];
    for (let i = 0; i + 2 < flat.length; i += 3) {
      posts.push({ id: String(flat[i]), text: String(flat[i + 1]), ageMs: Math.max(0, Number(flat[i + 2])) });
    }
    return posts;
  }

  async remove(kind: PostKind, id: string): Promise<void> {
    await this.#eval(REMOVE, kind, [id]);
  }

  /** ioredis hangs the refused command with its arguments on the error; they have no place in a log. */
  async #eval(script: string, kind: PostKind, args: readonly (string | number)[]): Promise<unknown> {
    try {
      return await this.client.eval(script, 3, ...keysOf(kind), ...args);
    } catch (error) {
      throw new Error(error instanceof Error ? error.message : String(error));
    }
  }
}
