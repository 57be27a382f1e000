-- The groups and the limits of messages that come from another queue.
-- @include limiting.lua

-- If a text has a group behind a zero byte, or an empty one, and limits behind another zero byte, or none, returns true.
-- Unless the message is in the queue already, it puts the id and the group into `groups`, and the id and the limits into
-- `records`.
local function put_group(groups, records, zset, id, text)
  local group, limits = string.match(text, '^%z([^%z]*)%z?(.*)$')
  if group and id ~= '' and not redis.call('ZSCORE', zset, id) then
    if group ~= '' then
      groups[#groups + 1], groups[#groups + 2] = id, group
    end
    if limits ~= '' then
      records[#records + 1], records[#records + 2] = id, limits
    end
  end
  return group ~= nil
end

-- Before messages are added: removes limits of messages that have left the queue. Fails, before any change, if memory is
-- full, or without the right to them.
local function prepare_limits(hash, zset, records)
  if #records > 0 then
    require_local_beside(zset, ':x:limits')
    redis.call('ZADD', zset, 'XX', '0', '') -- fails if memory is full; after the next ones Redis allows all
    remove_free_limits(zset .. ':x:limits', #records / 2, zset, redis.call('HGET', hash, 'x:limited'))
  end
end

-- Stores the limits of messages that were added.
local function add_limits(hash, zset, records)
  if #records > 0 then
    redis.call('HSET', hash, 'x:limited', '1')
    variadic('HSET', zset .. ':x:limits', records)
  end
end
