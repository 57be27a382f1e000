-- Messages that were received as often as their queue's policy allows. Receives that began no handler
-- call do not count.
-- @include due.lua
-- @include full.lua
-- @include limits.lua
-- @include origin.lua
-- @include queue.lua
-- @include totals.lua
-- @include unbegun.lua

-- Returns the policy of a queue: its limit and the target's keys. Returns nil if there is no
-- policy, or if the target does not exist or can't be written: then its messages are delivered. The
-- arguments are the namespace, and the fields x:dlq, x:max and x:limited as stored. It has the name of the queue too, if the
-- target has the field x:sqs: its redrives need the queue that each message came from.
local function policy(namespace, zset, target, limit, limited)
  limit = target and decimal(limit)
  local to_zset = limit and namespace .. ':' .. target
  if not limit or to_zset == zset then
    return
  end
  local to_hash = to_zset .. ':Q'
  local usable, stored = pcall(function()
    local found = queue(to_hash, 'x:limited', 'x:sqs')
    if found then -- these change nothing, but fail if the commands that move a message would fail
      allow_removal(to_zset, to_hash)
      redis.call('ZADD', to_zset, 'XX', '0', '\0none')
    else
      require_local('EXISTS', zset, to_hash)
    end
    return found
  end)
  if usable and stored or is_elsewhere(stored) then
    return {zset = to_zset, hash = to_hash, limit = limit, limited = has_limits(limited), has_limits = usable and stored[4],
      source = usable and stored[5] and string.sub(zset, #namespace + 2)}
  end
end

-- Fails if a key beside the queue that a message is moved to is on another node of a cluster. If the first message that a
-- script moves has no group, it does not look for the groups: others may then lose theirs.
local function require_local_target(zset, limited, id)
  require_local_beside(zset, ':x:unbegun')
  require_local_limits(zset, limited)
  if string.sub(id, -2) == 'Gr' then
    require_local_beside(zset, ':x:group_of')
  end
end

-- Fails if a key that moves a dead letter is on another node of a cluster. A script must call it, or
-- is_dead, before its first change that may not be repeated.
local function require_local_keys(zset, dead, id)
  if not dead.is_local then
    require_local('EXISTS', zset, dead.hash, dead.zset)
    require_local('HGET', dead.hash, '') -- these two are for users without the right to EXISTS
    require_local('ZADD', dead.zset, 'XX', '0', '')
    require_local_beside(zset, ':x:unbegun')
    if string.sub(id, -2) == 'Gr' then
      require_local_beside(zset, ':x:group_of')
    end
    require_local_target(dead.zset, dead.has_limits, id)
    dead.is_local = true
  end
end

-- Returns whether a message with this receive count is a dead letter by the policy. Its own number of retries counts
-- instead of the policy's limit.
local function is_dead(zset, hash, id, receives, dead)
  local retries = dead.limited and limits_of(zset, id)
  local limit = retries and retries + 1 or dead.limit
  if receives < limit then
    return false
  end
  require_local_keys(zset, dead, id)
  return begun_receives(zset, hash, id, receives) >= limit
end

-- Stores from which queue a dead letter came, as workers store it. At most 10,000 reasons are stored, for 30 days. A user
-- may lack the right.
local function store_source(to, id, receives)
  local reasons, time = to.zset .. ':x:reasons', redis.call('TIME')
  if (tonumber(redis.pcall('HLEN', reasons)) or 10000) < 10000 then
    local reason = {queue = to.source, worker = '', attempts = tonumber(receives) or 0,
      text = 'It was received as often as its queue allows, or has expired.'}
    local ms = digits(time[1] * 1000 + math.floor(time[2] / 1000))
    local stored, text = pcall(cjson.encode, reason)
    local nothing = ',"exception":null,"traceback":null}'
    redis.pcall('HSET', reasons, id, ms .. ':' .. (stored and string.sub(text, 1, -2) .. nothing or '{}'))
    redis.pcall('PEXPIRE', reasons, '2592000000')
  end
end

-- Moves a message with its counters to another queue, and without its limits: also without those that it had there
-- before, if `to.has_limits`, the field x:limited of that queue.
local function transfer(zset, hash, to, id, score)
  local names = {id, id .. ':rc', id .. ':fr', id .. ':meta'}
  local values = redis.call('HMGET', hash, unpack(names))
  values[1] = with_origin(values[1], zset)
  add_to(to.hash, 'totalsent', 1)
  for at, name in ipairs(names) do
    if values[at] then
      redis.call('HSET', to.hash, name, values[at])
    end
  end
  if has_limits(to.has_limits) then
    forget_limits(to.zset, id)
  end
  -- @include moving.lua
  store_moved(to.zset, id, records_to_move(zset, id)) -- a redrive gives the group back
  if to.source then
    store_source(to, id, values[2])
  end
  redis.call('ZADD', to.zset, score, id)
  remove_message(zset, hash, id)
  if values[4] then -- remove_message removes it only for some ids
    redis.call('HDEL', hash, names[4])
  end
  if values[2] then
    move_unbegun(zset, to, id)
  end
end
