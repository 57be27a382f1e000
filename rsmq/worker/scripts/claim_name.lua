-- Gives a worker its name in a cell, whichever worker of the name worked there before. The caller has the
-- name in its home cell. Without a record of such a worker nothing is written.
--
-- KEYS[1] in_flight  hash     the worker's messages in flight, as in fragments/in_flight.lua
-- ARGV[1] token      string   token of the calling worker
-- ARGV[2] lifetime   integer  ms for which the key lives from now on
--
-- returns the number of messages that are recorded as in flight
-- errors  none
-- source  none in Node
-- @include lifetime.lua

local in_flight = KEYS[1]
local token, lifetime = ARGV[1], ARGV[2]

local fields = redis.call('HLEN', in_flight)
if fields == 0 then
  return 0
end
redis.call('HDEL', in_flight, ':') -- no message has this id: when memory is full, it allows the next
local is_new = redis.call('HSET', in_flight, '', token)
keep_for(in_flight, lifetime)
return fields + is_new - 1
