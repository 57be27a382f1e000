-- Messages that were received as often as their queue's policy allows.

-- A total that is no integer fails here, before anything is changed.
local function require_integer(hash, field, stored)
  if stored and not string.find(stored, '^%-?%d+$') then
    redis.call('HINCRBY', hash, field, 0)
  end
end

-- The policy of a queue, nil without one: its limit, and the target's keys or none if it is gone.
-- Its arguments are the namespace, and the fields x:dlq and x:max as stored.
local function policy(namespace, zset, target, limit)
  limit = target and decimal(limit)
  if not limit then
    return
  end
  local to_zset = namespace .. ':' .. target
  local to_hash = to_zset .. ':Q'
  local stored = to_zset ~= zset and queue(to_hash, 'totalsent')
  if not stored then
    return
  end
  require_integer(to_hash, 'totalsent', stored[4])
  redis.call('ZSCORE', to_zset, '') -- fails on a key of another type
  return {zset = to_zset, hash = to_hash, limit = limit}
end

-- Moves a message with its counters to another queue.
local function transfer(zset, hash, to, id, score)
  local names = {id, id .. ':rc', id .. ':fr', id .. ':meta'}
  local values = redis.call('HMGET', hash, unpack(names))
  redis.call('HINCRBY', to.hash, 'totalsent', 1)
  for at, name in ipairs(names) do
    if values[at] then
      redis.call('HSET', to.hash, name, values[at])
    end
  end
  remove_message(zset, hash, id)
  redis.call('ZADD', to.zset, score, id)
end

-- Id and body of the first message that is due and may be delivered by the policy; those before it
-- that may not, at most 1,000, are moved.
local function first_deliverable(zset, hash, now, namespace, target, limit)
  local id, body = first_due(zset, hash, now)
  local most, dead = target and decimal(limit), nil
  for _ = 1, 1000 do
    if not id or not most or (decimal(redis.call('HGET', hash, id .. ':rc')) or 0) < most then
      return id, body
    end
    dead = dead or policy(namespace, zset, target, limit)
    if not dead then
      return id, body
    end
    allow_removal(zset, hash)
    transfer(zset, hash, dead, id, digits(now))
    id, body = first_due(zset, hash, now)
  end
end
