-- Returns the messages of some ids as rows of a selection.
--
-- KEYS[1] hash     hash        the queue's attributes, bodies and counters
-- KEYS[2] zset     sorted set  the queue's message ids
-- ARGV[1...] ids   strings     ids of messages
--
-- returns {id, receive count, score, id ...}, as in fragments/unchanged.lua, of those that are in the queue
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include queue.lua

local hash, zset = KEYS[1], KEYS[2]
local ids = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
local found = {}
for _, id in ipairs(ids) do
  local score = redis.call('ZSCORE', zset, id)
  if score then
    found[#found + 1], found[#found + 2], found[#found + 3] = id, redis.call('HGET', hash, id .. ':rc') or '0', score
  end
end
return found
