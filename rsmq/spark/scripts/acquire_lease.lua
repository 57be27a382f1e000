-- Acquires or renews a stream for a holder, unless another holder has it and its time is not over.
--
-- KEYS[1] hash      hash     the queue's attributes, bodies and counters
-- KEYS[2] leases    hash     receipts by stream, batch and part; for a stream its holder, and the ms until when
-- ARGV[1] stream    string   name of the stream
-- ARGV[2] holder    string   id of the process that acquires it
-- ARGV[3] time      integer  ms for which it is acquired
-- ARGV[4] lifetime  integer  ms for which `leases` is stored at least
--
-- returns ms for which another holder still has it; 0 if this holder has it now
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include queue.lua
-- @include lifetime.lua

local hash, leases = KEYS[1], KEYS[2]
local stream, holder, time, lifetime = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not queue(hash) then
  return queue_not_found(hash)
end
local now, stored = server_time_ms(), redis.call('HGET', leases, stream)
if stored then
  local current, until_ms = unpack(cmsgpack.unpack(stored))
  if current ~= holder and until_ms > now then
    return until_ms - now
  end
end
redis.call('HDEL', leases, ':') -- no stream has this name: when memory is full, it allows the next
redis.call('HSET', leases, stream, cmsgpack.pack({holder, now + time}))
keep_for(leases, lifetime)
return 0
