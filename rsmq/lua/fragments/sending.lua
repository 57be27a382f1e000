-- The checks of a new message, and its score.
-- @include attributes.lua
-- @include digits.lua
-- @include queue.lua

-- Checks whether a message of this size may be sent. Returns the queue's fields and the ms until
-- the message is visible; or nil and the refusal. Delay is as in send_message.lua. Only a delay that
-- is a time needs the argument now.
local function sendable(hash, size, delay, now, ...)
  local stored = queue(hash, ...)
  if not stored then
    return nil, queue_not_found(hash)
  end
  local at = tonumber(string.match(delay, '^at (%d+)$'))
  local wait = at and math.max(at - now, 0) or delay == 'front' and 0
    or delay ~= '' and tonumber(delay) or stored_ms(stored[2])
  if at and wait > 9999999000 then
    return nil, redis.error_reply('INVALIDVALUE deliver_at ' .. digits(wait))
  elseif not wait then
    return nil, no_number('delay', stored[2])
  end
  local limit = stored_maxsize(stored[3])
  if limit ~= -1 and tonumber(size) > limit then
    return nil, redis.error_reply('MESSAGETOOLONG ' .. size .. ' ' .. digits(limit))
  end
  return stored, wait
end

-- Returns the score of a message that is sent now: after its delay, or before all messages in the
-- queue.
local function score_of(zset, delay, now, wait)
  if delay ~= 'front' then
    return digits(now + wait)
  end
  local first = redis.call('ZRANGEBYSCORE', zset, '-inf', '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
  return digits(math.min(now, math.floor(first or now) - 1))
end
