-- Reads the record of a tracked task, and its call from the message or the record.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] record    hash        the record of the message, see begin_attempt.lua
-- ARGV[1] id        string      the message
--
-- returns {state, call, receives, begun ms, ended ms, result, error, first_begun ms, workers, errors}, each nil without a
--         value; the state is nil if there is neither a record nor a message
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include job_state.lua

local hash, zset, record = KEYS[1], KEYS[2], KEYS[3]
local id = ARGV[1]

local found = redis.call('HMGET', record, 'state', 'call', 'receives', 'begun', 'ended', 'result', 'error',
  'first_begun', 'workers', 'errors')
local state = job_state(hash, zset, id, found[1], found[3], server_time_ms())
return {state, found[2] or redis.call('HGET', hash, id), found[3], found[4], found[5], found[6], found[7], found[8],
  found[9], found[10]}
