-- Deletes messages that were set aside and have arrived in their target queue. Deletes the whole hash if no
-- message is left.
--
-- KEYS[1] aside   hash     the messages set aside; the field '' is their target queue
-- ARGV[1...] ids  strings  the ids of the messages
--
-- returns how many messages are left
-- errors  none: a missing hash has no messages
-- source  none in Node
-- @include variadic.lua

local aside = KEYS[1]
local ids = ARGV

variadic('HDEL', aside, ids)
local left = redis.call('HLEN', aside) - redis.call('HEXISTS', aside, '')
if left == 0 then
  redis.call('UNLINK', aside)
end
return left
