import { COUNTERS } from './counters.js';

/**
 * The ledger's writes on Redis, each one script, so that it happens whole or not at all.
 *
 * Keys of a run, all in one slot of a cluster:
 * - `head`: hash of `execution`, `committed` and `until`, the end of the lease in the server's milliseconds
 * - `calls`: hash of the counters, of `seeded`, and of `writes`, the number of writes so far
 * - `chunks`: sorted set of the first rows of the chunks that have outcomes
 * - `written`: sorted set of the last writes by their ids, oldest first
 * - `stop`: why the run must stop
 * - `rows:<first>`: hash of row → outcome, for each chunk
 *
 * Every script's first write is one that frees memory. A full server refuses the others (fault 34), unless a
 * script has written before; what is paid for must get in, and what is on disk must get out, or it stays full.
 */

/** The counters' names as a table of Lua. */
const NAMES = `{${COUNTERS.map((name) => `'${name}'`).join(', ')}}`;
/** Where outcomes begin among the arguments of RECORD. */
const FIRST_OUTCOME = 4 + COUNTERS.length;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/** KEYS head calls chunks stop; ARGV prefix execution committed lease ttl counter… */
export const OPEN = `${NOW}
local head, calls, chunks, stop = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local execution, committed = tonumber(ARGV[2]), tonumber(ARGV[3])
local before = redis.call('HMGET', head, 'execution', 'committed')
if before[1] and tonumber(before[1]) > execution then return 0 end
committed = math.max(committed, tonumber(before[2] or 0))
redis.call('ZREM', chunks, '')
if before[1] and tonumber(before[1]) < execution then redis.call('DEL', stop) end
for _, first in ipairs(redis.call('ZRANGEBYSCORE', chunks, '-inf', committed)) do
  local rows = ARGV[1] .. first
  for _, row in ipairs(redis.call('HKEYS', rows)) do
    if tonumber(row) <= committed then redis.call('HDEL', rows, row) end
  end
  if redis.call('EXISTS', rows) == 0 then redis.call('ZREM', chunks, first) end
end
redis.call('HSET', head, 'execution', execution, 'committed', committed, 'until', now + ARGV[4])
redis.call('PEXPIRE', head, ARGV[5])
if redis.call('HSETNX', calls, 'seeded', 1) == 1 then
  for i, name in ipairs(${NAMES}) do
    redis.call('HINCRBY', calls, name, ARGV[5 + i])
  end
  redis.call('PEXPIRE', calls, ARGV[5])
end
return 1
`;

/** KEYS head calls chunks written; ARGV prefix ttl id counter… {first row outcome}… */
export const RECORD = `
local head, calls, chunks, written = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ttl = ARGV[2]
redis.call('ZREMRANGEBYRANK', written, 0, -10001)
local n = redis.call('HINCRBY', calls, 'writes', 1)
if redis.call('ZADD', written, 'NX', n, ARGV[3]) == 0 then return 0 end
local committed = tonumber(redis.call('HGET', head, 'committed') or 0)
local repeated = 0
for i = ${FIRST_OUTCOME}, #ARGV, 3 do
  local first, row, outcome = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local rows = ARGV[1] .. first
  if tonumber(row) <= committed or redis.call('HSETNX', rows, row, outcome) == 0 then
    repeated = repeated + 1
  else
    redis.call('ZADD', chunks, first, first)
    redis.call('PEXPIRE', rows, ttl)
  end
end
for i, name in ipairs(${NAMES}) do
  if ARGV[3 + i] ~= '0' then redis.call('HINCRBY', calls, name, ARGV[3 + i]) end
end
if repeated > 0 then redis.call('HINCRBY', calls, 'repeated', repeated) end
for _, key in ipairs({calls, chunks, written}) do redis.call('PEXPIRE', key, ttl) end
return 1
`;

/** KEYS head rows; ARGV execution first. Returns whether the chunk is wanted, then its known rows. */
export const STANDING = `${NOW}
local head = redis.call('HMGET', KEYS[1], 'execution', 'committed', 'until')
local wanted = head[1] and tonumber(head[1]) == tonumber(ARGV[1])
  and tonumber(head[2]) < tonumber(ARGV[2]) and tonumber(head[3]) > now
return {wanted and 1 or 0, redis.call('HKEYS', KEYS[2])}
`;

/** KEYS head chunks; ARGV prefix committed lease ttl first… */
export const FORGET = `${NOW}
local head, chunks = KEYS[1], KEYS[2]
redis.call('ZREM', chunks, '')
for i = 5, #ARGV do
  redis.call('UNLINK', ARGV[1] .. ARGV[i])
  redis.call('ZREM', chunks, ARGV[i])
end
local committed = redis.call('HGET', head, 'committed')
if not committed then return 0 end
redis.call('HSET', head, 'committed', math.max(tonumber(committed), tonumber(ARGV[2])), 'until', now + ARGV[3])
redis.call('PEXPIRE', head, ARGV[4])
return 1
`;

/** KEYS head stop; ARGV execution reason ttl. A store that came back empty may hear of the reason before the run. */
export const STOP = `
local execution = redis.call('HGET', KEYS[1], 'execution')
if execution and tonumber(execution) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3], 'NX')
return 1
`;

/** KEYS head calls chunks written stop; ARGV prefix */
export const CLOSE = `
for _, first in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('UNLINK', ARGV[1] .. first) end
redis.call('UNLINK', unpack(KEYS))
`;
