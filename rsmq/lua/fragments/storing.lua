-- The writes of a batch of messages.
-- @include totals.lua
-- @include variadic.lua

-- Adds a pair to arguments of HSET or ZADD, unless its first value is missing.
local function put(arguments, first, second)
  if first then
    arguments[#arguments + 1], arguments[#arguments + 2] = first, second
  end
end

-- Fails, before any change, if memory is full or the user lacks a right; and publishes the number of messages that
-- there will be, which subscribers can't read before the script ends. It does nothing if nothing will be written.
local function begin_storing(zset, channel, added, is_empty)
  if is_empty then
    return
  end
  redis.call('ZADD', zset, 'XX', '0', '\0none')
  if channel ~= '' and added > 0 then
    redis.call('PUBLISH', channel, redis.call('ZCARD', zset) + added)
  end
end

-- Writes bodies and scores, of which `added` messages are new.
local function store_messages(hash, zset, fields, members, added)
  if added > 0 then
    add_to(hash, 'totalsent', added)
  end
  variadic('HSET', hash, fields)
  variadic('ZADD', zset, members)
end
