import { OWN_CALL, UNKNOWN_TEXT } from '../ledger.js';

/**
 * The ledger's writes on Redis. Each is one script, so it happens whole or not at all.
 *
 * Keys of a run, all in one slot of a cluster:
 * - `head`: hash of `v`, the version of all these keys, `execution`, `committed` and `until`, the end of the
 *   lease in the server's ms
 * - `calls`: hash of the counters, those of endpoints included, `seeded`, and `writes`, the number of writes so far
 * - `chunks`: sorted set of the first rows of chunks that have outcomes
 * - `written`: sorted set of the ids of the last writes, oldest first
 * - `stop`: why the run must stop
 * - `flight`: hash of row → when its last call was reserved, then the names of its open calls, one per line
 * - `interim`: hash of row → how often it was asked, and on the next line its interim outcome
 * - `rows:<first>`: hash of row → outcome, for each chunk
 *
 * The first write of every script frees memory. A full server refuses scripts that begin with
 * another write (fault 34); what is paid for must get in, and what is on disk must get out, or it stays full.
 */

export const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

const dropWritten = (interim: string): string => `
for _, row in ipairs(redis.call('HKEYS', ${interim})) do
  if tonumber(row) <= committed then redis.call('HDEL', ${interim}, row) end
end
`;

/** Raise it with every change of what the keys hold; a run of another version is refused. */
const VERSION = '1';

/** Reply of OPEN for a run of another version. */
export const OTHER_VERSION = 2;

/** KEYS head calls chunks stop flight interim; ARGV prefix execution committed lease ttl seeds lost, name and value of each counter… */
export const OPEN = `${NOW}
local head, calls, chunks, stop = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local execution, committed = tonumber(ARGV[2]), tonumber(ARGV[3])
local before = redis.call('HMGET', head, 'execution', 'committed', 'v')
if before[1] and before[3] ~= '${VERSION}' then return ${OTHER_VERSION} end
if before[1] and tonumber(before[1]) > execution then return 0 end
if ARGV[6] == '0' and redis.call('HEXISTS', calls, 'seeded') == 0 then return 0 end
committed = math.max(committed, tonumber(before[2] or 0))
redis.call('ZREM', chunks, '')
if before[1] and tonumber(before[1]) < execution then
  redis.call('DEL', stop)
  if ARGV[7] == '1' then
    local lost = 0
    local flight = redis.call('HGETALL', KEYS[5])
    for i = 1, #flight, 2 do
      if string.match(flight[i + 1], '^%d+\\n${OWN_CALL}[^\\n]*$') then
        redis.call('HDEL', KEYS[5], flight[i])
        lost = lost + 1
      end
    end
    if lost > 0 then redis.call('HINCRBY', calls, 'repeated', lost) end
  end
end
for _, first in ipairs(redis.call('ZRANGEBYSCORE', chunks, '-inf', committed)) do
  local rows = ARGV[1] .. first
  for _, row in ipairs(redis.call('HKEYS', rows)) do
    if tonumber(row) <= committed then redis.call('HDEL', rows, row) end
  end
  if redis.call('EXISTS', rows) == 0 then redis.call('ZREM', chunks, first) end
end
${dropWritten('KEYS[6]')}
redis.call('HSET', head, 'v', '${VERSION}', 'execution', execution, 'committed', committed, 'until', now + ARGV[4])
redis.call('PEXPIRE', head, ARGV[5])
if redis.call('HSETNX', calls, 'seeded', 1) == 1 then
  for i = 8, #ARGV, 2 do redis.call('HINCRBY', calls, ARGV[i], ARGV[i + 1]) end
  redis.call('PEXPIRE', calls, ARGV[5])
end
return 1
`;

/**
 * KEYS head calls chunks written flight interim; ARGV prefix ttl id batch outcome…
 * `batch` is a `RunBatch` as JSON arrays: ioredis would take longer for many arguments than both sides for
 * that. One outcome per settled row, empty where there is none. Returns what is spent and in flight, if there
 * was no room; the states of the rows of each reservation; and whether the ledger holds every outcome as
 * given. A write that was done before reserves nothing more; one that only looks has no id.
 */
export const WRITE = `${NOW}
local head, calls, chunks, written, flight, interim = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ttl = ARGV[2]
local atLeast, counts, settled, reservations = unpack(cjson.decode(ARGV[4]))
local function callsOf(row)
  local text = redis.call('HGET', flight, row)
  local names = {}
  if text then for name in string.gmatch(text, '\\n([^\\n]+)') do names[#names + 1] = name end end
  return names, text
end
local hasInterim = redis.call('EXISTS', interim) == 1
local isNew, isKept = false, 1
if ARGV[3] ~= '' then
  redis.call('ZREMRANGEBYRANK', written, 0, -10001)
  local n = redis.call('HINCRBY', calls, 'writes', 1)
  isNew = redis.call('ZADD', written, 'NX', n, ARGV[3]) == 1
end
local execution, committed, untilMs = unpack(redis.call('HMGET', head, 'execution', 'committed', 'until'))
committed = tonumber(committed or 0)
if isNew then
  local ended = {}
  for _, each in ipairs(settled) do
    local _, row, call = unpack(each)
    local names, text = callsOf(row)
    local left = text and string.match(text, '^[^\\n]*')
    local count = 0
    for _, name in ipairs(names) do
      if name == call then ended[row .. ' ' .. call] = true else left = left .. '\\n' .. name; count = count + 1 end
    end
    if count == 0 then redis.call('HDEL', flight, row) else redis.call('HSET', flight, row, left) end
  end
  local repeated = 0
  for i, each in ipairs(settled) do
    local first, row, call, asks = unpack(each)
    local outcome = ARGV[4 + i]
    if outcome ~= '' then
      local rows = ARGV[1] .. first
      local isUnknown = string.find(outcome, '${UNKNOWN_TEXT}', 1, true)
      local before = row > committed and redis.call('HGET', rows, row)
      local isTaken = row > committed and (not before or (not isUnknown and string.find(before, '${UNKNOWN_TEXT}', 1, true)))
      local isInterim = asks and isTaken and not before
      if isInterim then
        local known = redis.call('HGET', interim, row)
        isTaken = not known or tonumber(string.match(known, '^%d+')) < asks
      end
      if isTaken and isInterim then
        redis.call('HSET', interim, row, asks .. '\\n' .. outcome)
        redis.call('PEXPIRE', interim, ttl)
        hasInterim = true
      elseif isTaken then
        redis.call('HSET', rows, row, outcome)
        redis.call('ZADD', chunks, first, first)
        redis.call('PEXPIRE', rows, ttl)
        if not isUnknown then repeated = repeated + #callsOf(row) end
        redis.call('HDEL', flight, row)
        if hasInterim then redis.call('HDEL', interim, row) end
        if isUnknown then isKept = 0 end
      else
        if not asks then isKept = 0 end
        if call == '' or ended[row .. ' ' .. call] then repeated = repeated + 1 end
      end
    end
  end
  for _, each in ipairs(counts) do redis.call('HINCRBY', calls, each[1], each[2]) end
  if repeated > 0 then redis.call('HINCRBY', calls, 'repeated', repeated) end
elseif #settled > 0 then
  isKept = 0
end
local isOpen = execution and tonumber(untilMs) > now
execution = tonumber(execution or 0)
local prompt, completion
local function readSpent()
  if prompt then return end
  local sums = redis.call('HMGET', calls, 'prompt_tokens', 'completion_tokens')
  prompt = math.max(tonumber(sums[1] or 0), atLeast[1])
  completion = math.max(tonumber(sums[2] or 0), atLeast[2])
end
local sent, reservedPrompt, reservedCompletion, isFull = 0, 0, 0, false
local answers = {}
for _, reservation in ipairs(reservations) do
  local first, forExecution, call, hold, looks, bounds, rows = unpack(reservation)
  local isWanted = isOpen and execution == forExecution
  local states, free, mostPrompt, mostCompletion = {}, {}, 0, 0
  for i, each in ipairs(rows) do
    local row, rowPrompt, rowCompletion = unpack(each)
    local names, text = callsOf(row)
    local isIn = false
    for _, name in ipairs(names) do isIn = isIn or name == call end
    if not isWanted or committed >= row then
      states[i] = {'unwanted'}
    elseif redis.call('HEXISTS', ARGV[1] .. first, row) == 1 then
      states[i] = {'known'}
    elseif isIn then
      states[i] = {'granted'}
    elseif hold and #names > 0 then
      states[i] = {'held', names[1], now - tonumber(string.match(text, '^%d+'))}
    else
      states[i] = {'granted'}
      free[#free + 1] = {i, row, names}
      mostPrompt = mostPrompt + rowPrompt
      mostCompletion = mostCompletion + rowCompletion
    end
    if looks and hasInterim and states[i][1] == 'granted' then
      local known = redis.call('HGET', interim, row)
      states[i][2] = known and string.match(known, '\\n(.*)')
    end
  end
  if #free > 0 and not looks then
    local fits = isNew
    if fits and bounds then
      readSpent()
      local tokens, cost, promptPrice, completionPrice = unpack(bounds)
      local p, c = prompt + mostPrompt, completion + mostCompletion
      fits = p + c <= tokens and p * promptPrice + c * completionPrice <= cost
      if fits then prompt, completion = p, c end
    end
    if fits then
      sent = sent + 1
      reservedPrompt, reservedCompletion = reservedPrompt + mostPrompt, reservedCompletion + mostCompletion
    else
      isFull = true
    end
    for _, each in ipairs(free) do
      local i, row, names = unpack(each)
      if fits then
        names[#names + 1] = call
        redis.call('HSET', flight, row, now .. '\\n' .. table.concat(names, '\\n'))
      else
        states[i] = {'no_room'}
      end
    end
  end
  answers[#answers + 1] = states
end
if sent > 0 then
  redis.call('HINCRBY', calls, 'sent', sent)
  if reservedPrompt > 0 then redis.call('HINCRBY', calls, 'prompt_tokens', reservedPrompt) end
  if reservedCompletion > 0 then redis.call('HINCRBY', calls, 'completion_tokens', reservedCompletion) end
end
local totals = {0, 0, 0}
if isFull then
  readSpent()
  totals = {prompt, completion, redis.call('HLEN', flight)}
end
for _, key in ipairs({calls, chunks, written, flight}) do redis.call('PEXPIRE', key, ttl) end
return {totals, answers, isKept}
`;

/** KEYS calls stop flight; ARGV prefix first… */
export const PROGRESS = `
local counts = {}
for i = 2, #ARGV do counts[i - 1] = redis.call('HLEN', ARGV[1] .. ARGV[i]) end
return {
  redis.call('HEXISTS', KEYS[1], 'seeded'), redis.call('HGETALL', KEYS[1]),
  redis.call('GET', KEYS[2]), redis.call('HLEN', KEYS[3]), counts
}
`;

/** KEYS chunks; ARGV prefix */
export const WAITING = `
local waiting = 0
for _, first in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  waiting = waiting + redis.call('HLEN', ARGV[1] .. first)
end
return waiting
`;

/** KEYS head chunks interim; ARGV prefix committed lease ttl first… */
export const FORGET = `${NOW}
local head, chunks = KEYS[1], KEYS[2]
redis.call('ZREM', chunks, '')
for i = 5, #ARGV do
  redis.call('UNLINK', ARGV[1] .. ARGV[i])
  redis.call('ZREM', chunks, ARGV[i])
end
local committed = redis.call('HGET', head, 'committed')
if not committed then return 0 end
committed = math.max(tonumber(committed), tonumber(ARGV[2]))
${dropWritten('KEYS[3]')}
redis.call('HSET', head, 'committed', committed, 'until', now + ARGV[3])
redis.call('PEXPIRE', head, ARGV[4])
return 1
`;

/** KEYS head stop; ARGV execution reason ttl. An emptied store may get the reason before the run. */
export const STOP = `
local execution = redis.call('HGET', KEYS[1], 'execution')
if execution and tonumber(execution) > tonumber(ARGV[1]) then return 0 end
redis.call('HDEL', KEYS[1], '')
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3], 'NX')
return 1
`;

/** KEYS head calls chunks written stop flight interim; ARGV prefix */
export const CLOSE = `
for _, first in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do redis.call('UNLINK', ARGV[1] .. first) end
redis.call('UNLINK', unpack(KEYS))
`;
