-- Extends the visibility timeouts of the messages of a part of a batch whose receipts are still valid, and
-- stores the receipts of the batch for longer.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] leases    hash        receipts by stream, batch and part
-- ARGV[1] part      string      name of the stream, numbers of batch and part
-- ARGV[2] vt        integer     ms to hide them, from now; never shortens a visibility timeout
-- ARGV[3] lifetime  integer     ms until the receipts are deleted
--
-- returns {number of valid receipts, number of messages that another consumer has received since, the ms until
--         when those with valid receipts are hidden at least}
-- errors  none: without the queue or the part there is nothing to hide
-- source  none in Node; it writes what npm rsmq 0.12.4 changeMessageVisibility writes
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua
-- @include leases.lua
-- @include lifetime.lua

local hash, zset, leases = KEYS[1], KEYS[2], KEYS[3]
local part, vt, lifetime = ARGV[1], ARGV[2], ARGV[3]

allow_when_full(zset)
local now = server_time_ms()
local ids, counts = receipts_of(leases, part)
if not ids then
  return {0, 0, now + vt}
end
local leased, lost = still_leased(hash, zset, ids, counts)
local score, members = digits(now + vt), {}
for each = 1, #leased do
  members[2 * each - 1], members[2 * each] = score, leased[each]
end
for at = 1, #members, 4000 do
  redis.call('ZADD', zset, 'XX', 'GT', unpack(members, at, math.min(at + 3999, #members)))
end
local batch = string.match(part, '^(.*):')
local sizes = cmsgpack.unpack(redis.call('HGET', leases, batch))
sizes[1] = now + lifetime
redis.call('HSET', leases, batch, cmsgpack.pack(sizes))
keep_for(leases, lifetime)
return {#leased, lost, now + vt}
