-- The conditions and the writes of a schedule that is fired. A firing is a table with the keys schedules and due, and the
-- arguments name, definition, tick, last, next and at of fire_schedule.lua.
-- @include digits.lua

-- Returns nothing if the time of a schedule has come, and definition and tick are those that the caller has read; else the
-- answer of the script.
local function refusal_of_firing(firing, now)
  local name, next, last = firing.name, firing.next, tonumber(firing.last)
  local stored = redis.call('HMGET', firing.schedules, name, name .. ':tick', name .. ':paused', name .. ':last')
  local score = redis.call('ZSCORE', firing.due, name)
  if not score or tonumber(score) > now or stored[1] ~= firing.definition or stored[2] ~= firing.tick or stored[3] then
    return {0}
  elseif next ~= '' and tonumber(next) <= last or last < tonumber(firing.tick) then
    return redis.error_reply('INVALIDVALUE next ' .. next)
  end
  firing.score, firing.earlier_last = score, stored[4] or ''
end

-- Stores the next tick, and the last one with the id of its message; '-' = none. Then calls `send`. If the user lacks a
-- right, undoes that, and fails.
local function fire(firing, now, id, send)
  local schedules, due, name = firing.schedules, firing.due, firing.name
  -- The first change: it fails if memory is full. The others can't fail for that then.
  redis.call('ZADD', due, 'XX', firing.next == '' and '+inf' or firing.at, name)
  local is_done, failure = pcall(function()
    local last = firing.last .. ' ' .. digits(now) .. ' ' .. id
    redis.call('HSET', schedules, name .. ':tick', firing.next, name .. ':last', last)
    send()
  end)
  if not is_done then
    redis.call('ZADD', due, firing.score, name)
    redis.pcall('HSET', schedules, name .. ':tick', firing.tick, name .. ':last', firing.earlier_last)
    error(failure, 0)
  end
  redis.pcall('HDEL', schedules, name .. ':failure') -- the user may lack the right: it is done nevertheless
end
