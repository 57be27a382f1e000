-- Releases the last part of a batch: removes it from the batch, and makes its messages visible whose receipts are
-- still valid, with the time of their receive as their score. If the batch ends before the part or behind it,
-- changes nothing.
--
-- KEYS[1] hash    hash        the queue's attributes, bodies and counters
-- KEYS[2] zset    sorted set  the queue's message ids
-- KEYS[3] leases  hash        receipts by lease, batch and part
-- ARGV[1] batch   string      the lease's name, and the number of the batch
-- ARGV[2] part    integer     number of the part, from 0
--
-- returns number of messages that were released
-- errors  none: without the queue or the part there is nothing to release
-- source  none in Node; it writes what npm rsmq 0.12.4 changeMessageVisibility writes
-- @include digits.lua
-- @include full.lua
-- @include variadic.lua
-- @include leases.lua

local hash, zset, leases = KEYS[1], KEYS[2], KEYS[3]
local batch, part = ARGV[1], ARGV[2]

allow_when_full(zset)
local stored = redis.call('HGET', leases, batch)
local sizes = stored and cmsgpack.unpack(stored) or {}
if #sizes - 2 ~= tonumber(part) then
  return 0
end
local name = batch .. ':' .. part
local ids, counts, packed = receipts_of(leases, name)
local leased, members = {}, {}
if ids then
  leased = still_leased(hash, zset, ids, counts)
  local score = digits(cmsgpack.unpack(packed)[1])
  for each = 1, #leased do
    members[2 * each - 1], members[2 * each] = score, leased[each]
  end
end
for at = 1, #members, 4000 do
  redis.call('ZADD', zset, 'XX', unpack(members, at, math.min(at + 3999, #members)))
end
sizes[#sizes] = nil
redis.call('HDEL', leases, name)
redis.call('HSET', leases, batch, cmsgpack.pack(sizes))
return #leased
