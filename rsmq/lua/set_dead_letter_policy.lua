-- Sets or removes a queue's dead-letter policy, and returns all attributes.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- KEYS[3] to_hash  hash        the dead-letter queue's attributes; only to set a policy
-- ARGV[1] target   string      the dead-letter queue's name; '' removes the policy
-- ARGV[2] limit    integer     how often a message may be received
-- ARGV[3] name     string      the queue's own name
--
-- returns {{field values}, ids, hidden ids, score of the first hidden id or nil}
-- errors  QUEUENOTFOUND, INVALIDVALUE, DEADLETTERCYCLE
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include describe.lua

local hash, zset, to_hash = KEYS[1], KEYS[2], KEYS[3]
local target, limit, name = ARGV[1], ARGV[2], ARGV[3]

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
if target ~= '' then
  local to = queue(to_hash, 'x:dlq')
  if not to then
    return queue_not_found(to_hash)
  end
  if to[4] == name then
    return redis.error_reply('DEADLETTERCYCLE ' .. target)
  end
end
if not stored_ms(stored[1]) then
  return no_number('vt', stored[1])
end
if not stored_ms(stored[2]) then
  return no_number('delay', stored[2])
end
redis.call('ZSCORE', zset, '') -- fails on a key of another type, before any change
redis.call('HSET', hash, 'modified', digits(math.floor(server_time_us() / 1000000)))
if target == '' then
  redis.call('HDEL', hash, 'x:dlq', 'x:max')
else
  redis.call('HSET', hash, 'x:dlq', target, 'x:max', limit)
end
return describe(hash, zset)
