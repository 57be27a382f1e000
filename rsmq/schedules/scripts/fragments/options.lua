-- The unique_key and the limits of the messages of a schedule.
-- @include unique.lua
-- @include limiting.lua

-- Removes records of messages that have left the queue. The first commands fail, before any change, if the user lacks
-- a right.
local function prepare_options(unique, key, limits, hash, zset, number, limited)
  remove_free_keys(unique, key ~= '' and {[key] = true} or {}, number, zset)
  if limits ~= hash then
    remove_free_limits(limits, number, zset, limited)
  end
end

-- Stores the unique_key and the limits of messages that are sent. Returns an error, or nil.
local function store_options(unique, key, limits, hash, ids, record)
  local written = key ~= '' and redis.pcall('HSET', unique, key, ids[1])
  for at = 1, limits ~= hash and type(written) ~= 'table' and #ids or 0 do
    written = redis.pcall('HSET', limits, ids[at], record)
  end
  if limits ~= hash and type(written) ~= 'table' then
    written = redis.pcall('HSET', hash, 'x:limited', '1')
  end
  return type(written) == 'table' and written or nil
end
