-- Acquires or renews a lease for a time, unless another holder has it.
--
-- KEYS[1] hash      hash     the queue's attributes, bodies and counters
-- KEYS[2] leases    hash     receipts by lease, batch and part; by lease its holder and its end
-- ARGV[1] lease     string   name of the lease
-- ARGV[2] holder    string   the holder
-- ARGV[3] time      integer  ms until the lease ends
-- ARGV[4] lifetime  integer  ms until its entry expires
--
-- returns ms until the lease of another holder ends; 0 if it was acquired
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include lifetime.lua

local hash, leases = KEYS[1], KEYS[2]
local lease, holder, time, lifetime = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not queue(hash) then
  return queue_not_found(hash)
end
local now, held = server_time_ms(), redis.call('HGET', leases, lease)
if held then
  local of, to = unpack(cmsgpack.unpack(held))
  if of ~= holder and to > now then
    return to - now
  end
end
redis.call('HSET', leases, lease, cmsgpack.pack({holder, now + time}))
keep_for(leases, lifetime)
return 0
