-- Adds the ids of bodies that are not in the queue's sorted set to it. A message whose group is still stored is in its group
-- again, so it may be held back.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1...] orphans strings     id, ms from which it is visible or '' for now, id ...
--
-- returns how many were added
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include reserved.lua
-- @include full.lua
-- @include queue.lua
-- @include local_groups.lua
-- @include regrouping.lua

local hash, zset = KEYS[1], KEYS[2]
local orphans = ARGV

if not queue(hash) then
  return queue_not_found(hash)
end
require_local_groups_of(zset, orphans)
local now, restored = server_time_ms(), {}
allow_when_full(zset)
for at = 1, #orphans, 2 do
  local id, score = orphans[at], orphans[at + 1]
  if not redis.call('ZSCORE', zset, id) and redis.call('HEXISTS', hash, id) == 1
    and not is_reserved(id) then
    redis.call('ZADD', zset, score == '' and digits(now) or score, id)
    restored[#restored + 1] = id
  end
end
regroup(zset, hash, groups_of(zset, restored), now, true) -- the next step restores others
return #restored
