-- The next message to deliver of a queue with limits.
-- @include dead_letters.lua
-- @include due.lua
-- @include expired.lua
-- @include full.lua
-- @include totals.lua

-- Returns the first visible message that is neither a dead letter nor expired, in the format of first_due. Moves or
-- removes those before it, at most 1,000. If limits of the queue allow no receive, returns nil and ms, as throttled_ms
-- returns them; else notes the receive for them. The last arguments are the fields x:dlq, x:max, x:keep, x:limited and
-- x:throttle as stored, and the ms for which the message will be hidden, nil if it is popped.
local function first_deliverable(zset, hash, now, namespace, target, limit, keep, limited, throttle, hidden)
  local id, values = first_due(zset, hash, now)
  local most, dead = target and decimal(limit), nil
  local expires = id and expiry(namespace, zset, hash, keep, limited)
  for _ = 1, 1000 do
    if not id then
      return
    end
    local receives, is_put_off = whole(values[2]), false
    if limited and limited ~= '1' and string.sub(id, -2) == 'Gr' then
      -- @include putting_off.lua
      is_put_off = put_off(zset, hash, id, now)
    end
    if not dead and most and (has_limits(limited) or receives >= most) then
      dead = policy(namespace, zset, target, limit, limited)
    end
    if is_put_off then
      receives = 0 -- the next one is looked at
    elseif dead and is_dead(zset, hash, id, receives, dead) then
      allow_removal(zset, hash)
      transfer(zset, hash, dead, id, digits(now))
      note_left(zset, hash, {id})
    elseif expires and is_expired(zset, id, now, expires) then
      allow_removal(zset, hash)
      expire(zset, hash, id, now, expires)
      note_left(zset, hash, {id})
    else
      if throttle then
        -- @include throttle.lua
        throttle = open_throttle(zset, hash, throttle, now, 1, not hidden)
      end
      if throttle and throttle.room == 0 then
        return nil, throttle:ms(now)
      elseif throttle then
        throttle:use({number = 1, told = {id}, again = {1, receives + 1}}, now + (hidden or 0))
      end
      return id, values
    end
    id, values = first_due(zset, hash, now)
  end
end
