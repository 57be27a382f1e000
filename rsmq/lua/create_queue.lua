-- Creates a queue, or completes one that lacks attributes, and lists it.
--
-- KEYS[1] hash           hash        the queue's attributes, bodies and counters
-- KEYS[2] zset           sorted set  the queue's message ids
-- KEYS[3] queues         set         the names of all queues
-- ARGV[1] name           string      the queue's name
-- ARGV[2...] attributes  strings     field, value, field ...; '' = a new queue does not have the field
--
-- returns {1} if it was created or completed, {0, the fields as stored, '' for a missing one} if it existed
-- errors  none
-- source  npm rsmq 0.12.4 createQueue; it also lists a queue that is not listed, and completes a partial one
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua

local hash, zset, queues = KEYS[1], KEYS[2], KEYS[3]
local name = ARGV[1]
local attributes = ARGV

local fields = {}
for at = 2, #attributes, 2 do
  fields[#fields + 1] = attributes[at]
end
local stored = queue(hash, unpack(fields))
redis.call('ZSCORE', zset, '') -- fails on a key of another type, before any change
if stored then
  redis.pcall('SREM', queues, '\0none') -- no queue has this name: when memory is full, it allows the next
end
redis.call('SADD', queues, name)
if stored then
  local reply = {0}
  for at = 1, #fields do
    reply[at + 1] = stored[at + 3] or ''
  end
  return reply
end

local now = digits(math.floor(server_time_us() / 1000000))
for at = 2, #attributes, 2 do
  if attributes[at + 1] ~= '' then
    redis.call('HSETNX', hash, attributes[at], attributes[at + 1])
  end
end
redis.call('HSETNX', hash, 'created', now)
redis.call('HSETNX', hash, 'modified', now)
return {1}
