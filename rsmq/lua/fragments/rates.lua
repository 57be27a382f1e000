-- Sends with a rate: the messages of a group or a limit key become visible one after the other, an interval apart. A sorted
-- set beside the queue has for each of them the microseconds from which its next message may be visible. A limit key has
-- one rate, whatever the number of its messages that may run.
-- @include digits.lua

-- Returns the score of the next message of a group, which would be `score` without a rate; '' = no group, or no interval.
-- `times` has the times of this batch.
local function take_turn(rates, times, group, interval, score)
  if group == '' or interval == '' then
    return score
  end
  local name = string.match(group, '^\1%d+(:.+)$') or group
  name = name == group and name or '\1' .. name
  local at = math.max(times[name] or redis.call('ZSCORE', rates, name) or 0, score * 1000)
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
-- before any change, if the user lacks the right.
local function store_turns(rates, times, us, messages)
  if not next(times) then
    return
  end
  redis.call('ZREM', rates, '') -- Redis then allows the rest if memory is full
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', rates, '-inf', digits(us), 'LIMIT', '0', 2 * messages)) do
    redis.call('ZREM', rates, name)
  end
  for name, at in pairs(times) do
    redis.call('ZADD', rates, digits(at), name)
  end
end
