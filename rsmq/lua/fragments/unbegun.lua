-- The receives of messages that began no handler call, because a worker released the messages before.
-- A hash beside the queue: by message id their number; under '' the queue's created, without which the
-- hash is void; under ':' the cursor of its clearing.
-- @include local_keys.lua

-- Returns the number for each id, in order. It is 0 for all if the user lacks the right. It fails if the hash is on
-- another node of a cluster.
local function unbegun_receives(zset, hash, ids)
  local key, numbers = zset .. ':x:unbegun', {}
  local created = redis.pcall('HGET', key, '')
  if type(created) ~= 'string' then
    require_local_beside(zset, ':x:unbegun')
  end
  local is_valid = type(created) == 'string' and created == (redis.call('HGET', hash, 'created') or '')
  for at = 1, #ids, 4000 do
    local to = math.min(at + 3999, #ids)
    local part = is_valid and redis.call('HMGET', key, unpack(ids, at, to)) or {}
    for each = at, to do
      local text = part[each - at + 1]
      numbers[each] = text and string.find(text, '^%d+$') and #text < 10 and tonumber(text) or 0
    end
  end
  return numbers
end

-- Returns how many attempts at a message were begun, of its receives.
local function begun_receives(zset, hash, id, receives)
  return receives - unbegun_receives(zset, hash, {id})[1]
end

-- Stores {id, value, id ...} in a hash beside the queue, at most 100,000 of them for seven days. If there are too
-- many, it clears those of messages that have left the queue; a call reads about 1,000 of them.
local function store_records(key, zset, hash, records)
  local created = redis.call('HGET', hash, 'created') or ''
  if redis.call('HGET', key, '') ~= created then
    redis.call('UNLINK', key)
    redis.call('HSET', key, '', created)
  end
  if redis.call('HLEN', key) + #records / 2 > 100000 then
    local found = redis.call('HSCAN', key, redis.call('HGET', key, ':') or '0', 'COUNT', '1000')
    for at = 1, #found[2], 2 do
      local id = found[2][at]
      if id ~= '' and id ~= ':' and not redis.call('ZSCORE', zset, id) then
        redis.call('HDEL', key, id)
      end
    end
    redis.call('HSET', key, ':', found[1])
  end
  local room = 100000 - redis.call('HLEN', key)
  for at = 1, #records, 2 do
    if room > 0 or redis.call('HEXISTS', key, records[at]) == 1 then
      room = room - redis.call('HSET', key, records[at], records[at + 1])
    end
  end
  redis.call('PEXPIRE', key, '604800000')
end

-- Stores {id, number, id ...} as store_records does. A user may lack the right; then these receives count. The
-- script has called require_local_beside.
local function record_unbegun(zset, hash, records)
  if #records > 0 then
    pcall(store_records, zset .. ':x:unbegun', zset, hash, records)
  end
end

-- Moves the number of a message to the queue that the message is moved to, if the user has the right. The script
-- has called require_local_beside for both queues.
local function move_unbegun(zset, to, id)
  local stored = redis.pcall('HGET', zset .. ':x:unbegun', id)
  if type(stored) == 'string' then
    record_unbegun(to.zset, to.hash, {id, stored})
    redis.pcall('HDEL', zset .. ':x:unbegun', id)
  end
end
