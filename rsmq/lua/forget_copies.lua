-- Deletes the digests of messages that have arrived from another server and can't be added a second
-- time. Deletes the whole hash if nothing but its mark is left.
--
-- KEYS[1] copied      hash     digests of the messages that were copied
-- ARGV[1...] digests  strings  the digests to delete
--
-- returns how many fields are left; 0 if the hash was deleted
-- errors  none: a missing key has no digests
-- source  none in Node
-- @include variadic.lua

local copied = KEYS[1]
local digests = ARGV

variadic('HDEL', copied, digests)
local left = redis.call('HLEN', copied)
if left == 1 and redis.call('HEXISTS', copied, 'created') == 1 then
  redis.call('UNLINK', copied)
  return 0
end
return left
