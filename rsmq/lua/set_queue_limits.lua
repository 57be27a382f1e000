-- Sets or removes the limits of a queue, and returns all attributes.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- KEYS[3] running  sorted set  what of the limits is used
-- ARGV[1] limits   string      as in fragments/throttle_state.lua; '' removes them
--
-- returns {{field values}, ids, hidden ids, score of the first hidden id or nil}
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include describe.lua

local hash, zset, running = KEYS[1], KEYS[2], KEYS[3]
local limits = ARGV[1]

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
if not stored_ms(stored[1]) then
  return no_number('vt', stored[1])
end
if not stored_ms(stored[2]) then
  return no_number('delay', stored[2])
end
redis.call('ZSCORE', zset, '') -- fails on a key of another type, before any change
if limits == '' then
  redis.call('HDEL', hash, 'x:throttle') -- Redis then allows the rest if memory is full
end
if limits == '' or string.byte(limits) == 58 then -- it begins with a colon: no message in flight counts
  redis.call('UNLINK', running)
end
redis.call('HSET', hash, 'modified', digits(math.floor(server_time_us() / 1000000)))
if limits ~= '' then
  redis.call('HSET', hash, 'x:throttle', limits)
end
return describe(hash, zset)
