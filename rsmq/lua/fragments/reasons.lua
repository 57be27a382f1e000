-- The reasons of dead letters: a hash beside their queue, from message id to 'ms of the move:reason
-- as JSON'.
-- @include local_keys.lua
-- @include variadic.lua

-- Returns how many more reasons may be stored. If there are too many, it removes reasons of
-- messages that have left the queue; a call reads about 1,000 reasons.
local function room_for_reasons(reasons, zset, bound)
  if redis.call('HLEN', reasons) < bound then
    return bound - redis.call('HLEN', reasons)
  end
  local found = redis.call('HSCAN', reasons, redis.call('HGET', reasons, '') or '0', 'COUNT', '1000')
  for at = 1, #found[2], 2 do
    local id = found[2][at]
    if id ~= '' and not redis.call('ZSCORE', zset, id) then
      redis.call('HDEL', reasons, id)
    end
  end
  redis.call('HSET', reasons, '', found[1]) -- the cursor of the next call
  return bound - redis.call('HLEN', reasons)
end

-- Returns the records of messages as stored, in order; an empty table if the user lacks the right to their key. It fails
-- if the hash is on another node of a cluster.
local function records_of(zset, ids, name)
  if #ids > 0 then
    require_local_beside(zset, name)
  end
  local found = #ids > 0 and redis.pcall('HMGET', zset .. name, unpack(ids)) or {}
  return found.err and {} or found
end

-- Removes the reasons of messages that leave the queue, if the user has the right. The script has called
-- require_local_beside.
local function forget_reasons(zset, ids)
  pcall(variadic, 'HDEL', zset .. ':x:reasons', ids)
end
