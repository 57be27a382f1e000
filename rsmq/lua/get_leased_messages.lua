-- Returns the messages of a part of a batch whose receipts are still valid. Changes nothing.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- KEYS[3] leases  hash        receipts by lease, batch and part
-- ARGV[1] part    string      the lease's name, and the numbers of batch and part
--
-- returns {receipts as in fragments/leases.lua, {place, body, place ...} of those that are still valid};
--         nil if the part does not exist
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
local leased, places = still_leased(hash, zset, ids, counts)
local bodies, found = values_of('HMGET', hash, leased), {}
for each = 1, #leased do
  if bodies[each] then
    found[#found + 1], found[#found + 2] = places[each], bodies[each]
  end
end
return {packed, found}
