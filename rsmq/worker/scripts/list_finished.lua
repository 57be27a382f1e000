-- Returns which handlers of messages have finished in earlier attempts.
--
-- KEYS[1] hash        hash     the queue's attributes, bodies and counters
-- KEYS[2] finished    hash     as in record_finished.lua
-- ARGV[1...] ids      strings  the messages' ids
--
-- returns {names with commas between them, or nil} for each message
-- errors  none
-- source  none in Node
-- @include variadic.lua

local hash, finished = KEYS[1], KEYS[2]
local ids = ARGV

if redis.call('HGET', finished, '') ~= (redis.call('HGET', hash, 'created') or '') then
  return {}
end
return values_of('HMGET', finished, ids)
