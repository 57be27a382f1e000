-- Sends with a rate: the messages of a group or a limit key become visible one after the other, an interval apart. A sorted
-- set beside the queue has for each of them the microseconds from which its next message may be visible. A limit key has
-- one rate, whatever the number of its messages that may run. Without the field x:rated of the queue, the set is that of
-- an earlier queue with this name, which another client has deleted.
-- @include digits.lua
-- @include variadic.lua

-- Returns the stored time of a group, or nothing. The last message before it may be due at most 9,999,999 s after its send,
-- and an interval is a day at most: a later time was stored while the server's clock was ahead, and counts as over.
local function stored_turn(rates, name, score)
  local at = tonumber(redis.call('ZSCORE', rates, name) or 0)
  return at <= (score + 9999999000 + 86400000) * 1000 and at or nil
end

-- Returns the score of the next message of a group, which would be `score` without a rate; '' = no group, or no interval.
-- `times` has the times of this batch, `is_rated` is the field x:rated as stored.
local function take_turn(rates, times, group, interval, score, is_rated)
  if group == '' or interval == '' then
    return score
  end
  local name = string.match(group, '^\1%d+(:.+)$') or group
  name = name == group and name or '\1' .. name
  local at = math.max(times[name] or is_rated and stored_turn(rates, name, score) or 0, score * 1000)
  times[name] = at + interval
  return digits(math.ceil(at / 1000))
end

-- Returns an error if a message would be visible too late.
local function refusal_of_rate(times, interval, now)
  for _, at in pairs(times) do
    local wait = math.ceil((at - interval) / 1000) - now
    if wait > 9999999000 then
      return redis.error_reply('INVALIDVALUE rate ' .. digits(wait))
    end
  end
end

-- Stores the times of a batch, and removes some that are over: twice as many as it has messages. The first command fails,
-- before any change, if the user lacks the right. Without x:rated, removes all, and stores it.
local function store_turns(rates, times, hash, is_rated, us, messages)
  if not next(times) then
    return
  end
  redis.call('ZREM', rates, '') -- Redis then allows the rest if memory is full
  if not is_rated then
    redis.pcall('UNLINK', rates) -- the user may lack the right: then there is more for the next ones to do
    repeat
      local names = redis.call('ZRANGEBYSCORE', rates, '-inf', '+inf', 'LIMIT', '0', '1000')
      variadic('ZREM', rates, names)
    until #names == 0
    redis.call('HSET', hash, 'x:rated', '1')
  end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', rates, '-inf', digits(us), 'LIMIT', '0', 2 * messages)) do
    redis.call('ZREM', rates, name)
  end
  for name, at in pairs(times) do
    redis.call('ZADD', rates, digits(at), name)
  end
end
