-- Adds an attempt to the record of a tracked task: its worker, and the call itself, which outlives the message.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] record    hash        the record of the message, as in fragments/jobs.lua; also call (the body), first_begun
--                               (ms), workers (for each attempt a line 'COUNT NAME'), errors (see store_errors.lua)
-- ARGV[1] id        string      the message
-- ARGV[2] count     integer     its receive count
-- ARGV[3] body      bytes       its body
-- ARGV[4] worker    string      the name of the worker
--
-- returns {first_begun, begun, workers, errors}, each nil without a value; nothing if the message is not in the queue or
--         was received again since: then nothing is changed. Nor is it without a record
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local hash, zset, record = KEYS[1], KEYS[2], KEYS[3]
local id, count, body, worker = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HGET', hash, id .. ':rc') ~= count or not redis.call('ZSCORE', zset, id) then
  return false
end
local found = redis.call('HMGET', record, 'state', 'first_begun', 'workers', 'begun')
if found[1] then
  local workers = found[3] or ''
  local line = count .. ' ' .. worker .. '\n'
  if string.sub(workers, -#line) ~= line and #workers < 65536 then -- a repeated call adds nothing
    workers = workers .. line
  end
  -- the first attempt begins with its receive, as each later one
  local first_begun = found[2] or found[4] or digits(server_time_ms())
  redis.call('HSET', record, 'first_begun', first_begun, 'call', body, 'workers', workers)
end
return redis.call('HMGET', record, 'first_begun', 'begun', 'workers', 'errors')
