-- Gives messages that are in the queue the records that they have in another queue.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- ARGV[1...] records  strings     the records, as read_carried reads them
--
-- returns 1
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include carried.lua

local hash, zset = KEYS[1], KEYS[2]
local records = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
local carried = carried_of(zset, read_carried(records, 1), true)
prepare_carried(zset, hash, carried)
store_carried(zset, hash, carried, server_time_ms())
return 1
