-- Puts newly arrived messages of a queue into kept keys, which get the names of those of the queue. New ones win.
-- @include attribute_names.lua
-- @include due.lua
-- @include expiries.lua
-- @include group_lists.lua
-- @include marking.lua
-- @include variadic.lua

-- Returns the number of ids and fields that have come.
local function size_of(zset, found)
  local size = redis.call('ZCARD', zset)
  for _, each in ipairs(found) do
    if each[4] ~= -2 and each[1] ~= zset then
      size = size + redis.call(is_sorted_set(each[1]) and 'ZCARD' or 'HLEN', each[1])
    end
  end
  return size
end

-- Returns the ids in a queue, and how many of them are kept too: these have returned by another way.
local function ids_of(zset, kept_zset)
  local ids, both = redis.call('ZRANGE', zset, 0, -1), 0
  for _, id in ipairs(ids) do
    both = both + (redis.call('ZSCORE', kept_zset, id) and 1 or 0)
  end
  return ids, both
end

-- Puts the fields of the queue's hash into the kept one, with the attributes that the queue has now.
local function merge_hash(live, kept, ids)
  local stored, changed = redis.call('HGETALL', live), {}
  local limited = redis.call('HGET', kept, 'x:limited')
  local _, gone = stored_attributes(live)
  variadic('HDEL', kept, fields_of(ids))
  for at = 1, #stored, 2 do
    if redis.call('HGET', kept, stored[at]) ~= stored[at + 1] then
      changed[#changed + 1], changed[#changed + 2] = stored[at], stored[at + 1]
    end
  end
  variadic('HDEL', kept, gone)
  variadic('HSET', kept, changed)
  local mark = redis.call('HGET', live, 'x:limited')
  if mark then
    mark_limited(kept, limited, mark)
  end
end

-- Puts the keys of a queue into the kept ones, and gives these their old names. `ids` are those of its messages.
local function merge(found, hash, zset, ids, now)
  for _, each in ipairs(found) do
    local live, kept, _, left = unpack(each)
    if live == zset then
      for _, id in ipairs(ids) do
        redis.call('ZADD', kept, redis.call('ZSCORE', zset, id), id)
      end
    elseif live == hash then
      merge_hash(live, kept, ids)
    elseif left ~= -2 and is_sorted_set(live) then
      local members = redis.call('ZRANGE', live, 0, -1, 'WITHSCORES')
      for at = 1, #members, 2 do
        redis.call('ZADD', kept, 'GT', members[at + 1], members[at]) -- the later turn, the last receive
      end
    elseif left ~= -2 then
      variadic('HSET', kept, redis.call('HGETALL', live))
    end
  end
  rename_back(found, now)
end
