-- Messages that are older than their queue's retention, or past the expiry that they were sent with.
-- @include attributes.lua
-- @include dead_letters.lua
-- @include due.lua
-- @include limits.lua

-- Returns the ms of the send that an id contains, or nothing: only ids in the format of Node and of this library
-- contain a time that is certain.
local function sent_ms(id)
  if #id == 32 and string.find(id, '^%w+$') and string.find(id, '%u')
    and not string.find(string.sub(id, 1, 10), '%u') then
    local us = tonumber(string.sub(id, 1, 10), 36)
    return us >= 1262304000000000 and math.floor(us / 1000)
  end
end

-- Returns the namespace of a queue's sorted set.
local function namespace_of(zset, name)
  return string.sub(zset, 1, -2 - #name)
end

-- Returns when messages of a queue expire, and where they go then: without `dead` they are removed. Returns nil if
-- they don't expire: without limits, or if they go to a dead-letter queue that does not exist or can't be written.
-- The last arguments are the fields x:keep and x:limited as stored.
local function expiry(namespace, zset, hash, keep, limited)
  limited = has_limits(limited)
  if not keep and not limited then
    return
  end
  local stored = redis.call('HMGET', hash, 'x:expired', 'x:dlq', 'x:max')
  local dead = stored[1] == 'dead-letter' and policy(namespace, zset, stored[2], stored[3])
  if dead or stored[1] ~= 'dead-letter' then
    return {keep = decimal(keep), limited = limited, dead = dead}
  end
end

-- Returns whether a message is expired. Fails if a key that moves it is on another node of a cluster.
local function is_expired(zset, id, now, expires)
  local sent, ends = expires.keep and sent_ms(id), nil
  if sent then
    ends = sent + expires.keep * 1000
  end
  if expires.limited and not (ends and ends <= now) then
    local _, own = limits_of(zset, id)
    ends = own or ends
  end
  if not ends or ends > now then
    return false
  elseif expires.dead then
    require_local_keys(zset, expires.dead, id)
  end
  return true
end

-- Removes an expired message, or moves it to the dead-letter queue with its counters.
local function expire(zset, hash, id, now, expires)
  if expires.dead then
    transfer(zset, hash, expires.dead, id, digits(now))
  else
    remove_message(zset, hash, id)
  end
end
