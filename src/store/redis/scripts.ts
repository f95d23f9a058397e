import { COUNTERS } from '../counters.js';
import { OWN, UNKNOWN_TEXT } from '../ledger.js';

/**
 * The ledger's writes on Redis, each one script, so that it happens whole or not at all.
 *
 * Keys of a run, all in one slot of a cluster:
 * - `head`: hash of `execution`, `committed` and `until`, the end of the lease in the server's milliseconds
 * - `calls`: hash of the counters, of `seeded`, and of `writes`, the number of writes so far
 * - `chunks`: sorted set of the first rows of the chunks that have outcomes
 * - `written`: sorted set of the last writes by their ids, oldest first
 * - `stop`: why the run must stop
 * - `flight`: hash of row → when its last call was announced, and the names of its calls that have not ended, by lines
 * - `rows:<first>`: hash of row → outcome, for each chunk
 *
 * Every script's first write is one that frees memory. A full server refuses the others (fault 34), unless a
 * script has written before; what is paid for must get in, and what is on disk must get out, or it stays full.
 */

/** The counters' names as a table of Lua. */
const NAMES = `{${COUNTERS.map((name) => `'${name}'`).join(', ')}}`;
/** Where outcomes begin among the arguments of RECORD. */
const FIRST_OUTCOME = 6 + COUNTERS.length;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/**
 * KEYS head calls chunks stop flight; ARGV prefix execution committed lease ttl seeds lost counter…
 * An earlier version counted rows in flight without names.
 */
export const OPEN = `${NOW}
local head, calls, chunks, stop = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local execution, committed = tonumber(ARGV[2]), tonumber(ARGV[3])
local before = redis.call('HMGET', head, 'execution', 'committed')
if before[1] and tonumber(before[1]) > execution then return 0 end
if ARGV[6] == '0' and redis.call('HEXISTS', calls, 'seeded') == 0 then return 0 end
committed = math.max(committed, tonumber(before[2] or 0))
redis.call('ZREM', chunks, '')
if before[1] and tonumber(before[1]) < execution then
  redis.call('DEL', stop)
  if ARGV[7] == '1' then
    local lost = tonumber(redis.call('HGET', calls, 'in_flight') or 0)
    redis.call('HDEL', calls, 'in_flight')
    local flight = redis.call('HGETALL', KEYS[5])
    for i = 1, #flight, 2 do
      if string.match(flight[i + 1], '^%d+\\n${OWN}[^\\n]*$') then
        redis.call('HDEL', KEYS[5], flight[i])
        lost = lost + 1
      end
    end
    if lost ~= 0 then redis.call('HINCRBY', calls, 'repeated', lost) end
  end
end
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
    redis.call('HINCRBY', calls, name, ARGV[7 + i])
  end
  redis.call('PEXPIRE', calls, ARGV[5])
end
return 1
`;

/**
 * KEYS head calls chunks written flight;
 * ARGV prefix ttl id settled outcomes counter… {row call}… {first row outcome call}… {first row execution call hold}…
 * Returns for each announced row whether it may be called. A write that was done before answers the same again.
 */
export const RECORD = `${NOW}
local head, calls, chunks, written, flight = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ttl = ARGV[2]
local outcomes = ${FIRST_OUTCOME} + 2 * ARGV[4]
local announced = outcomes + 4 * ARGV[5]
local function callsOf(row)
  local text = redis.call('HGET', flight, row)
  local names = {}
  if text then for name in string.gmatch(text, '\\n([^\\n]+)') do names[#names + 1] = name end end
  return names, text
end
redis.call('ZREMRANGEBYRANK', written, 0, -10001)
local n = redis.call('HINCRBY', calls, 'writes', 1)
local isNew = redis.call('ZADD', written, 'NX', n, ARGV[3]) == 1
local execution, committed, untilMs = unpack(redis.call('HMGET', head, 'execution', 'committed', 'until'))
committed = tonumber(committed or 0)
if isNew then
  local ended = {}
  for i = ${FIRST_OUTCOME}, outcomes - 1, 2 do
    local row, call = ARGV[i], ARGV[i + 1]
    local names, text = callsOf(row)
    local left = text and string.match(text, '^[^\\n]*')
    local count = 0
    for _, name in ipairs(names) do
      if name == call then ended[row .. ' ' .. call] = true else left = left .. '\\n' .. name; count = count + 1 end
    end
    if count == 0 then redis.call('HDEL', flight, row) else redis.call('HSET', flight, row, left) end
  end
  local repeated = 0
  for i = outcomes, announced - 1, 4 do
    local first, row, outcome, call = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local rows = ARGV[1] .. first
    local isUnknown = string.find(outcome, '${UNKNOWN_TEXT}', 1, true)
    local before = tonumber(row) > committed and redis.call('HGET', rows, row)
    local isKept = tonumber(row) > committed
      and (not before or (not isUnknown and string.find(before, '${UNKNOWN_TEXT}', 1, true)))
    if isKept then
      redis.call('HSET', rows, row, outcome)
      redis.call('ZADD', chunks, first, first)
      redis.call('PEXPIRE', rows, ttl)
      if not isUnknown then repeated = repeated + #callsOf(row) end
      redis.call('HDEL', flight, row)
    elseif call == '' or ended[row .. ' ' .. call] then
      repeated = repeated + 1
    end
  end
  for i, name in ipairs(${NAMES}) do
    if ARGV[5 + i] ~= '0' then redis.call('HINCRBY', calls, name, ARGV[5 + i]) end
  end
  if repeated > 0 then redis.call('HINCRBY', calls, 'repeated', repeated) end
end
local granted = {}
for i = announced, #ARGV, 5 do
  local first, row, call = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  local names, text = callsOf(row)
  local isIn = false
  for _, name in ipairs(names) do isIn = isIn or name == call end
  local mayFly = isNew and not isIn and execution and tonumber(execution) == tonumber(ARGV[i + 2])
    and committed < tonumber(row) and tonumber(untilMs) > now
    and redis.call('HEXISTS', ARGV[1] .. first, row) == 0
    and (ARGV[i + 4] == '0' or #names == 0)
  if mayFly then
    names[#names + 1] = call
    redis.call('HSET', flight, row, now .. '\\n' .. table.concat(names, '\\n'))
    isIn = true
  end
  granted[#granted + 1] = isIn and 1 or 0
end
for _, key in ipairs({calls, chunks, written, flight}) do redis.call('PEXPIRE', key, ttl) end
return granted
`;

/** KEYS head rows flight; ARGV execution first row…. Returns whether the chunk is wanted, its known rows, the rows in flight. */
export const STANDING = `${NOW}
local head = redis.call('HMGET', KEYS[1], 'execution', 'committed', 'until')
local wanted = head[1] and tonumber(head[1]) == tonumber(ARGV[1])
  and tonumber(head[2]) < tonumber(ARGV[2]) and tonumber(head[3]) > now
local inFlight = {}
for i = 3, #ARGV do
  local text = redis.call('HGET', KEYS[3], ARGV[i])
  if text then
    local since, call = string.match(text, '^(%d+)\\n([^\\n]+)')
    inFlight[#inFlight + 1] = {ARGV[i], call, now - tonumber(since)}
  end
end
return {wanted and 1 or 0, redis.call('HKEYS', KEYS[2]), inFlight}
`;

/** KEYS chunks; ARGV prefix */
export const WAITING = `
local waiting = 0
for _, first in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  waiting = waiting + redis.call('HLEN', ARGV[1] .. first)
end
return waiting
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

/** KEYS head calls chunks written stop flight; ARGV prefix */
export const CLOSE = `
for _, first in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('UNLINK', ARGV[1] .. first) end
redis.call('UNLINK', unpack(KEYS))
`;
