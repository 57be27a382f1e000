-- Why dead letters died: a hash beside their queue, of message ids each with 'ms when:why as JSON'.

-- How many more reasons may be kept. Where they are too many, those of messages that have left the
-- queue are looked for and removed; a call looks at some thousand.
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
  redis.call('HSET', reasons, '', found[1]) -- where the next call goes on
  return bound - redis.call('HLEN', reasons)
end

-- Of messages as stored, in order; nothing for a user who may not look there.
local function reasons_of(zset, ids)
  local found = #ids > 0 and redis.pcall('HMGET', zset .. ':x:reasons', unpack(ids)) or {}
  return found.err and {} or found
end

-- Forgets the reasons of messages that leave the queue, where the user may.
local function forget_reasons(zset, ids)
  pcall(variadic, 'HDEL', zset .. ':x:reasons', ids)
end
