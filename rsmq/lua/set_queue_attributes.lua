-- Sets attributes of a queue, and returns all of them.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1] vt       integer     seconds; '' = unchanged
-- ARGV[2] delay    integer     seconds; '' = unchanged
-- ARGV[3] maxsize  integer     UTF-16 code units or bytes, or -1; '' = unchanged
-- ARGV[4] keep     integer     seconds after which messages expire; 0 = never; '' = unchanged
-- ARGV[5] expired  string      what happens then: drop or dead-letter; '' = unchanged
--
-- returns {{field values}, ids, hidden ids, score of the first hidden id or nil}
-- errors  QUEUENOTFOUND, INVALIDVALUE, NODEADLETTERPOLICY
-- source  npm rsmq 0.12.4 setQueueAttributes
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include describe.lua

local hash, zset = KEYS[1], KEYS[2]
local vt, delay, maxsize, keep, expired = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored = queue(hash, 'x:dlq')
if not stored then
  return queue_not_found(hash)
end
if vt == '' and not stored_ms(stored[1]) then
  return no_number('vt', stored[1])
end
if delay == '' and not stored_ms(stored[2]) then
  return no_number('delay', stored[2])
end
if expired == 'dead-letter' and not stored[4] then
  return redis.error_reply('NODEADLETTERPOLICY ' .. hash)
end
redis.call('ZSCORE', zset, '') -- fails on a key of another type, before any change
redis.call('HSET', hash, 'modified', digits(math.floor(server_time_us() / 1000000)))
if vt ~= '' then
  redis.call('HSET', hash, 'vt', vt)
end
if delay ~= '' then
  redis.call('HSET', hash, 'delay', delay)
end
if maxsize ~= '' then
  redis.call('HSET', hash, 'maxsize', maxsize)
end
if keep == '0' then
  redis.call('HDEL', hash, 'x:keep')
elseif keep ~= '' then
  redis.call('HSET', hash, 'x:keep', keep)
end
if expired == 'drop' then
  redis.call('HDEL', hash, 'x:expired')
elseif expired ~= '' then
  redis.call('HSET', hash, 'x:expired', expired)
end
return describe(hash, zset)
