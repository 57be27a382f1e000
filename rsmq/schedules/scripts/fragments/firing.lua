-- The conditions and the writes of a schedule that is fired.
-- @include digits.lua
-- @include totals.lua

-- Returns the score of a schedule if its time has come, and definition and tick are those that the caller has read.
local function due_score(schedules, due, name, definition, tick, now)
  local stored = redis.call('HMGET', schedules, name, name .. ':tick', name .. ':paused')
  local score = redis.call('ZSCORE', due, name)
  if score and tonumber(score) <= now and stored[1] == definition and stored[2] == tick and not stored[3] then
    return score
  end
end

-- Stores the next tick and the last one. Returns an error, or nil.
local function store_state(schedules, name, next, last, now, ids)
  local text = last .. ' ' .. digits(now) .. ' ' .. (ids[#ids] or '-')
  local written = redis.pcall('HSET', schedules, name .. ':tick', next, name .. ':last', text)
  return type(written) == 'table' and written or nil
end

-- Sends messages, all or none. Returns an error, or nil.
local function send(hash, zset, fields, members, ids)
  local written = redis.pcall('ZADD', zset, unpack(members))
  if type(written) == 'table' then
    return written
  end
  written = redis.pcall('HSET', hash, unpack(fields))
  if type(written) == 'table' then
    redis.call('ZREM', zset, unpack(ids))
    return written
  end
  add_to(hash, 'totalsent', #ids)
end

-- Undoes that.
local function unsend(hash, zset, ids)
  redis.call('ZREM', zset, unpack(ids))
  redis.call('HDEL', hash, unpack(ids))
  add_to(hash, 'totalsent', -#ids)
end
