-- Changes the state of an operation of many messages: the only place that does.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] operation  hash        the record of the operation
-- KEYS[3] index      sorted set  ids of operations: ms from which one may be taken, or minus the ms of its end
-- ARGV[1] id         string      the id
-- ARGV[2] event      string      take, advance, succeed and fail by a runner; pause, resume and cancel by a caller
-- ARGV[3] owner      string      the runner
-- ARGV[4] lease      integer     ms for which the runner has it from now on
-- ARGV[5] kept       integer     ms for which the record is kept after the end
-- ARGV[6] cursor     string      of advance: where the next step begins
-- ARGV[7] done       integer     of advance: messages that were changed so far
-- ARGV[8] scanned    integer     of advance: messages that were looked at so far
-- ARGV[9] left       integer     of advance: messages that could not be changed so far
-- ARGV[10] error     string      of fail: why
--
-- returns {the state now, '' = there is no such operation; 1 if the event was allowed, else 0}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua

local hash, operation, index = KEYS[1], KEYS[2], KEYS[3]
local id, event, owner, lease, kept = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local cursor, done, scanned, left, error = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10]

-- The step of a runner may end after its operation was paused or cancelled: it counts.
local transitions = {
  take = {waiting = 'running', running = 'running'},
  advance = {running = 'running', waiting = 'waiting', paused = 'paused', cancelled = 'cancelled'},
  succeed = {running = 'succeeded'},
  fail = {running = 'failed', waiting = 'failed', paused = 'failed'},
  pause = {running = 'paused', waiting = 'paused'},
  resume = {paused = 'waiting'},
  cancel = {running = 'cancelled', waiting = 'cancelled', paused = 'cancelled'},
}
local is_of_runner = {advance = true, succeed = true, fail = true}
local is_ended = {succeeded = true, failed = true, cancelled = true}

local now = server_time_ms()
local values = redis.call('HMGET', operation, 'state', 'owner', 'lease', 'created', 'scanned', 'ends')
local state, until_ms, stored = values[1], tonumber(values[3] or 0), queue(hash, 'created')
if not state then
  redis.call('ZREM', index, id)
  return {'', 0}
end
local is_other = values[2] ~= owner
if (is_of_runner[event] and is_other) or (event == 'take' and is_other and state == 'running' and until_ms > now) then
  return {state, 0}
end
-- The runner before has ended in the midst of a step, which may end the next one too.
local ends = state == 'running' and is_other and 1 + (values[6] or 0) or 0
local is_gone = not stored or (stored[4] or '') ~= values[4]
if (event == 'take' and ends > 1) or ((event == 'take' or event == 'advance') and is_gone and not is_ended[state]) then
  event, error = 'fail', is_gone and 'queueNotFound' or 'serverEnded'
end
local after = transitions[event][state]
if not after then
  return {state, 0}
end
if event == 'advance' then
  redis.call('HSET', operation, 'cursor', cursor, 'done', done, 'scanned', scanned, 'left', left, 'advanced', digits(now), 'ends', '0')
elseif event == 'take' then
  redis.call('HSET', operation, 'taken', digits(now), 'taken_scanned', values[5] or '0', 'ends', digits(ends))
elseif event == 'fail' then
  redis.call('HSET', operation, 'error', error)
end
redis.call('HSET', operation, 'state', after)
if is_ended[after] then
  if not is_ended[state] then
    redis.call('HSET', operation, 'ended', digits(now))
    redis.call('ZADD', index, digits(-now), id)
  end
  redis.call('PEXPIRE', operation, kept)
elseif after == 'running' then
  redis.call('HSET', operation, 'owner', owner, 'lease', digits(now + lease))
  redis.call('ZADD', index, digits(now + lease), id)
else
  redis.call('ZADD', index, after == 'paused' and '+inf' or digits(now), id)
end
return {after, 1}
