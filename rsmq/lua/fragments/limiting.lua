-- Sends of messages with limits, whose records limits.lua describes.
-- @include digits.lua
-- @include limits.lua
-- @include marking.lua
-- @include variadic.lua

-- Returns the record of messages that are sent now. The arguments are as in send_with_options.lua.
local function limits_record(retries, expires, now)
  return retries .. ':' .. (expires ~= '' and digits(now + expires) or '')
end

-- Returns the refusal of messages that would expire before they are visible, or nothing.
local function refusal_of_expiry(wait, expires)
  if expires ~= '' and wait >= tonumber(expires) then
    return redis.error_reply('INVALIDVALUE expires ' .. expires .. ' ' .. digits(wait))
  end
end

-- Returns whether messages with limits may be replaced by a send without any. Fails, before any change, without the right
-- to remove their limits.
local function may_drop_limits(limits, hash, zset, replaces, limited)
  local drops = limits == hash and replaces and has_limits(limited)
  if drops then
    redis.call('HDEL', zset .. ':x:limits', '\0none')
    require_local_limits(zset, limited)
  end
  return drops
end

-- Before records are stored, removes those of messages that have left the queue: it reads twice as many as the batch
-- has messages, chosen at random. If x:limited names no limits, the records are those of an earlier queue with this
-- name, and it removes all; up to 100,000 if the user may not UNLINK. The first command fails, before any change, if the user lacks the right.
local function remove_free_limits(limits, messages, zset, limited)
  redis.call('HDEL', limits, '\0none') -- Redis then allows the rest if memory is full
  limited = has_limits(limited)
  if not limited then
    redis.pcall('UNLINK', limits)
  end
  local most = limited and 2 * messages + 10 or 100000
  for _, id in ipairs(redis.call('HRANDFIELD', limits, most) or {}) do
    if not limited or not redis.call('ZSCORE', zset, id) then
      redis.call('HDEL', limits, id)
    end
  end
end

-- Stores the limits of the messages that are in `fields`, pairs of id and body.
local function store_limits(hash, limits, limited, fields, record)
  local records = {}
  for at = 1, #fields, 2 do
    records[at], records[at + 1] = fields[at], record
  end
  if #fields > 0 then
    mark_limited(hash, limited, '1')
    variadic('HSET', limits, records)
  end
end

-- Removes the limits of the messages in `fields`.
local function drop_limits(zset, fields)
  for at = 1, #fields, 2 do
    forget_limits(zset, fields[at])
  end
end

-- Stores the limits of the messages in `fields`, or removes them if the send has none and `drops` them.
local function change_limits(limits, hash, zset, drops, limited, messages, fields, record)
  if limits ~= hash then
    remove_free_limits(limits, messages, zset, limited)
    store_limits(hash, limits, limited, fields, record)
  elseif drops then
    drop_limits(zset, fields)
  end
end
