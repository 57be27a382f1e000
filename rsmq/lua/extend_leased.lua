-- Hides the messages of a part of a batch for longer, if their receipts are still valid.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] leases    hash        receipts by lease, batch and part
-- ARGV[1] part      string      the lease's name, and the numbers of batch and part
-- ARGV[2] vt        integer     ms to hide them from now; never shortens the time
-- ARGV[3] lifetime  integer     ms until the receipts expire
--
-- returns {how many were extended, how many another consumer has received since}
-- errors  none: without the queue or the part there is nothing to hide
-- source  none in Node; it writes what npm rsmq 0.12.4 changeMessageVisibility writes
-- @include time_ms.lua
-- @include digits.lua
-- @include full.lua
-- @include variadic.lua
-- @include leases.lua
-- @include lifetime.lua

local hash, zset, leases = KEYS[1], KEYS[2], KEYS[3]
local part, vt, lifetime = ARGV[1], ARGV[2], ARGV[3]

allow_when_full(zset)
local ids, counts = receipts_of(leases, part)
if not ids then
  return {0, 0}
end
local held, _, lost = still_held(hash, zset, ids, counts)
local now = server_time_ms()
local score, members = digits(now + vt), {}
for each = 1, #held do
  members[2 * each - 1], members[2 * each] = score, held[each]
end
for at = 1, #members, 4000 do
  redis.call('ZADD', zset, 'XX', 'GT', unpack(members, at, math.min(at + 3999, #members)))
end
local batch = string.match(part, '^(.*):')
local sizes = cmsgpack.unpack(redis.call('HGET', leases, batch))
sizes[1] = now + lifetime
redis.call('HSET', leases, batch, cmsgpack.pack(sizes))
keep_for(leases, lifetime)
return {#held, lost}
