-- Sets attributes of a queue, and returns all of them.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- ARGV[1...] changes  strings     field, new value, field ...; '' removes the field
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
local changes = ARGV

local new = {}
for at = 1, #changes, 2 do
  new[changes[at]] = changes[at + 1]
end
local stored = queue(hash, 'x:dlq')
if not stored then
  return queue_not_found(hash)
end
if not (new.vt or stored_ms(stored[1])) then
  return no_number('vt', stored[1])
end
if not (new.delay or stored_ms(stored[2])) then
  return no_number('delay', stored[2])
end
if new['x:expired'] == 'dead-letter' and not stored[4] then
  return redis.error_reply('NODEADLETTERPOLICY ' .. hash)
end
redis.call('ZSCORE', zset, '') -- fails on a key of another type, before any change
redis.call('HSET', hash, 'modified', digits(math.floor(server_time_us() / 1000000)))
for at = 1, #changes, 2 do
  local field, value = changes[at], changes[at + 1]
  if value == '' then
    redis.call('HDEL', hash, field)
  else
    redis.call('HSET', hash, field, value)
  end
end
return describe(hash, zset)
