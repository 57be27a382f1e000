-- Messages that come to a queue with their ids and their limits, as by a move or an import.
-- @include limiting.lua
-- @include variadic.lua

-- Before messages are added: removes limits of messages that have left the queue. Fails, before any change, if memory is
-- full, or without the right to them. The records are pairs of id and limits, as in limits.lua.
local function prepare_limits(hash, zset, records)
  if #records > 0 then
    require_local_beside(zset, ':x:limits')
    redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails if memory is full; after the next ones Redis allows all
    remove_free_limits(zset .. ':x:limits', #records / 2, zset, redis.call('HGET', hash, 'x:limited'))
  end
end

-- Stores the limits of messages that were added.
local function add_limits(hash, zset, records)
  if #records > 0 then
    mark_limited(hash, redis.call('HGET', hash, 'x:limited'), '1')
    variadic('HSET', zset .. ':x:limits', records)
  end
end
