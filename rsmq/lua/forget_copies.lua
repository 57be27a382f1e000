-- Forgets messages that have arrived from another server, of which no copy may come any more.
--
-- KEYS[1] copied      hash     digests of what was copied
-- ARGV[1...] digests  strings  those to be forgotten
--
-- returns how many are left
-- errors  none: a missing key has none
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
