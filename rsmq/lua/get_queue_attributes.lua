-- Returns the attributes and counts of a queue at one moment.
--
-- KEYS[1] hash  hash        the queue's attributes, bodies and counters
-- KEYS[2] zset  sorted set  the queue's message ids
--
-- returns {{field values}, ids, hidden ids, score of the first hidden id or nil}
-- errors  QUEUENOTFOUND, INVALIDVALUE
-- source  npm rsmq 0.12.4 getQueueAttributes; hidden is exact to the ms, Node's to the second
-- @include queue.lua
-- @include attributes.lua
-- @include describe.lua

local hash, zset = KEYS[1], KEYS[2]

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
return describe(hash, zset)
