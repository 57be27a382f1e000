-- Where a message is known: its record, the worker that has it in flight, the dead-letter queue.
-- @include local_keys.lua
-- @include queue.lua
-- @include job_state.lua
-- @include reasons.lua

-- Returns the record of a tracked message, if it has one that the user may read.
local function job_of(hash, zset, id, now)
  local key = zset .. ':x:job:' .. id
  require_local('EXISTS', zset, key)
  local found = redis.pcall('HMGET', key, 'state', 'receives', 'attempt', 'worker', 'begun', 'ended', 'result',
    'error', 'cancel', 'done', 'total', 'text', 'ttl', 'next')
  if found.err or not found[1] then
    return false
  end
  return {job_state(hash, zset, id, found[1], found[2], now), found[1], unpack(found, 3, 14)}
end

-- Returns the name of the worker that has a message of the queue `name` in flight since a receive, of the first 500
-- that are registered with this queue. `held` begins the keys of what workers have in flight.
-- Returns '' if there are more workers, else false if none has it.
local function worker_of(zset, id, count, name, held, registered)
  local names, keys, receipt = {}, {}, count .. ':' .. name
  local described = string.find(name, '^[%w_-]+$') and '"' .. name .. '"' or '' -- other names may be escaped in JSON
  for at = 1, registered and #registered or 0, 2 do
    if string.find(registered[at + 1], described, 1, true) then
      names[#names + 1] = registered[at]
    end
  end
  for at = 1, math.min(#names, 500) do
    keys[at] = held .. names[at]
  end
  require_local('EXISTS', zset, unpack(keys))
  for at, key in ipairs(keys) do
    if redis.pcall('HGET', key, id) == receipt then
      return names[at]
    end
  end
  return #names > #keys and ''
end

-- Returns 1 if the dead-letter queue exists, else 0, and {score, reason} if the message is in it.
local function find_dead(zset, id, namespace, target)
  if not target then
    return 0, false
  end
  local to_zset = namespace .. ':' .. target
  require_local('EXISTS', zset, to_zset, to_zset .. ':Q')
  local has_read, exists = pcall(queue, to_zset .. ':Q')
  if not has_read or not exists then
    return 0, false
  end
  local score = redis.pcall('ZSCORE', to_zset, id)
  if type(score) ~= 'string' then
    return 1, false
  end
  return 1, {score, records_of(to_zset, {id}, ':x:reasons')[1] or false}
end
