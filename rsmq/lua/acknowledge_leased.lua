-- Deletes the messages of a part of a batch whose receipts are still valid, and their receipts.
-- Stores the number of the batch as acknowledged, even if there is no such part.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] leases    hash        receipts by lease, batch and part
-- KEYS[4] acked     hash        by query the last acknowledged batch, as in fragments/highest.lua
-- ARGV[1] lease     string      name of the lease
-- ARGV[2] batch     integer     number of the batch
-- ARGV[3] part      integer     number of the part
-- ARGV[4] lifetime  integer     ms until the number of the batch expires
-- ARGV[5] query     string      the query's name in `acked`
--
-- returns {how many were deleted, how many another consumer has received since}
-- errors  none: without the queue or the part there is nothing to delete
-- source  none in Node; it leaves what npm rsmq 0.12.4 deleteMessage leaves of each
-- @include time_ms.lua
-- @include digits.lua
-- @include reserved.lua
-- @include due.lua
-- @include full.lua
-- @include variadic.lua
-- @include leases.lua
-- @include lifetime.lua
-- @include highest.lua

local hash, zset, leases, acked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, batch, part, lifetime, query = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

allow_removal(zset, hash)
raise_to(acked, query, tonumber(batch), lifetime)
part = lease .. ':' .. batch .. ':' .. part
local ids, counts = receipts_of(leases, part)
if not ids then
  return {0, 0}
end
local held, _, lost = still_held(hash, zset, ids, counts)
redis.call('HDEL', leases, part)
local removed = 0
for at = 1, #held, 4000 do
  removed = removed + redis.call('ZREM', zset, unpack(held, at, math.min(at + 3999, #held)))
end
variadic('HDEL', hash, fields_of(held))
return {removed, lost}
