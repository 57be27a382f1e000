-- Reads the records of tracked messages. A job whose message has left the queue without an outcome ends here, if the
-- user may write its record, unless the call only reads.
--
-- KEYS[1] hash           hash        the queue's attributes, bodies and counters
-- KEYS[2] zset           sorted set  the queue's message ids
-- KEYS[3...] records     hash        the record of each message, as in fragments/jobs.lua
-- ARGV[1] lifetime       integer     ms for which the record of a job that ends here lives; '' = nothing is written
-- ARGV[2...] ids         strings     the ids of the messages
--
-- returns for each message {state, stored state, attempt, worker, begun ms, ended ms, result, error, ms of the cancel
--         that its end will answer, done, total, text, ms of its life after its end unless that is an hour, id and queue of
--         the next message}, each nil
--         without a value; the state is nil if there is neither a record nor a message: then the second value is the vt
--         of the queue, nil if there is no queue
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include jobs.lua
-- @include job_state.lua

local hash, zset = KEYS[1], KEYS[2]
local records = KEYS
local lifetime = ARGV[1]
local ids = ARGV

local now, answer = server_time_ms(), {}
for each = 2, #ids do
  local id = ids[each]
  local found = redis.call('HMGET', records[each + 1], 'state', 'receives', 'attempt', 'worker', 'begun', 'ended',
    'result', 'error', 'cancel', 'done', 'total', 'text', 'ttl', 'next')
  local state = job_state(hash, zset, id, found[1], found[2], now)
  if state == 'expired' and found[1] ~= state then
    found[9] = false
    if lifetime ~= '' then
      found[6] = digits(now)
      pcall(change_job, records[each + 1], 'expire', now, lifetime, 0)
    end
  end
  local stored = found[1]
  if not state then
    stored = redis.call('HMGET', hash, 'vt')[1]
  end
  answer[each - 1] = {state, stored, unpack(found, 3, 14)}
end
return answer
