-- Gives messages the limits that they have in another queue, unless they have some.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- KEYS[3] limits      hash        limits by message id
-- ARGV[1...] records  strings     for each message its id and its limits, as in fragments/limits.lua
--
-- returns how many of the messages that are in the queue have other limits
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include queue.lua
-- @include limiting.lua
-- @include limits.lua
-- @include marking.lua
-- @include variadic.lua

local hash, zset, limits = KEYS[1], KEYS[2], KEYS[3]
local records = ARGV

local stored = queue(hash, 'x:limited')
if not stored then
  return queue_not_found(hash)
end
local missing, others = {}, 0
for at = 1, #records, 2 do
  if redis.call('ZSCORE', zset, records[at]) then
    local record = has_limits(stored[4]) and redis.call('HGET', limits, records[at])
    if not record then
      missing[#missing + 1], missing[#missing + 2] = records[at], records[at + 1]
    elseif record ~= records[at + 1] then
      others = others + 1
    end
  end
end
if #missing > 0 then
  redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails if memory is full; after the next ones Redis allows all
  remove_free_limits(limits, #missing / 2, zset, stored[4])
  mark_limited(hash, stored[4], '1')
  variadic('HSET', limits, missing)
end
return others
