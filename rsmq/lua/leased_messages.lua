-- Returns the messages of a part of a batch whose receipts are still valid. Nothing is changed.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- KEYS[3] leases  hash        receipts by lease, batch and part
-- ARGV[1] part    string      the lease's name, and the numbers of batch and part
--
-- returns {receipts as in fragments/leases.lua, {index, body, index ...} of those that are still valid};
--         nil if there is no such part
-- errors  none
-- source  none in Node
-- @include variadic.lua
-- @include leases.lua

local hash, zset, leases = KEYS[1], KEYS[2], KEYS[3]
local part = ARGV[1]

local ids, counts, packed = receipts_of(leases, part)
if not ids then
  return false
end
local held, places = still_held(hash, zset, ids, counts)
local bodies, told = values_of('HMGET', hash, held), {}
for each = 1, #held do
  if bodies[each] then
    told[#told + 1], told[#told + 2] = places[each], bodies[each]
  end
end
return {packed, told}
