-- The limits of a queue: how many messages that this library has received may be in flight, and how many it may receive in
-- a time. The field x:throttle has them as 'MESSAGES:NUMBER/UNIT', both may be empty. A sorted set beside the queue has
-- what is used: by message id the receive count; under '' the microseconds until which receives are used up; under ':'
-- the queue's created, without which the set is void. A message that is deleted, visible, received by another client or
-- waiting for a retry counts no more: it need not be removed.
-- @include retrying.lua
-- @include time_us.lua

-- Reads which messages are noted as received, with their receive counts.
local function read_noted(throttle)
  local stored, ids, counts = redis.call('ZRANGEBYSCORE', throttle.key, '-inf', '+inf', 'WITHSCORES'), {}, {}
  for at = 1, #stored, 2 do
    local id = stored[at]
    if id ~= '' and id ~= ':' then
      ids[#ids + 1], counts[id] = id, tonumber(stored[at + 1])
    end
  end
  throttle.counts = counts
  return ids
end

-- Finds which of these messages are not in flight, and the ms at which the first of the others becomes visible.
local function find_finished(throttle, zset, hash, ids, now)
  local names, gone = {}, throttle.gone
  if #ids == 0 then
    return
  end
  for each = 1, #ids do
    names[each] = ids[each] .. ':rc'
  end
  local scores, counts = redis.pcall('ZMSCORE', zset, unpack(ids)), redis.call('HMGET', hash, unpack(names))
  local errors = errors_of(zset, hash, ids, counts)
  for each, id in ipairs(ids) do
    -- A user may lack the right to ZMSCORE.
    local score = tonumber((scores.err and redis.call('ZSCORE', zset, id) or scores[each]) or 0)
    if score > now and tonumber(counts[each] or 0) == throttle.counts[id] and not errors[each] then
      throttle.next_end = math.min(throttle.next_end, score)
    else
      gone[#gone + 1] = id
    end
  end
  throttle.number = #ids - #gone
end

-- Reads what the rate allows: `number` receives in a unit of so many microseconds. Receives left unused in the last tenth
-- of a second are allowed now. A time that is too late is from a lower rate, or the clock was set back: no more than
-- one burst is waited for.
local function read_rate(throttle, used, number, unit_us)
  throttle.interval, throttle.us = math.ceil(unit_us / number), server_time_us()
  throttle.burst = math.max(math.floor(number * 100000 / unit_us), 1)
  local latest = throttle.us + throttle.burst * throttle.interval
  throttle.is_late = used > latest
  throttle.used = math.max(throttle.is_late and latest or used, throttle.us)
  local allowed = throttle.burst - math.ceil((throttle.used - throttle.us) / throttle.interval)
  throttle.room = math.min(throttle.room, allowed)
end

-- Returns what is left of the limits, nil for a queue without limits. `text` is the field as stored, `want` the number of
-- messages to receive, `pops` whether they are popped: then only the rate limits them.
local function read_throttle(zset, hash, text, now, want, pops)
  local most, number, unit = string.match(text or '', '^(%d*):(%d*)/?([smhd]?)$')
  local unit_us = ({s = 1000000, m = 60000000, h = 3600000000, d = 86400000000})[unit]
  most, number = not pops and tonumber(most) or nil, unit_us and tonumber(number)
  most, number = most and math.min(most, 1000), number and number > 0 and number
  if not most and not number then
    return
  end
  local key = zset .. ':x:running'
  local throttle = {key = key, most = most, room = want, counts = {}, gone = {}, next_end = math.huge}
  local created, used, size = redis.call('ZSCORE', key, ':'), redis.call('ZSCORE', key, ''), redis.pcall('ZCARD', key)
  -- A user may lack the right to ZCARD.
  throttle.number = type(size) == 'number' and size - (created and 1 or 0) - (used and 1 or 0) or #read_noted(throttle)
  throttle.created = tonumber(redis.call('HGET', hash, 'created')) or 0
  if tonumber(created or '') ~= throttle.created then
    throttle.gone, used = throttle.number > 0 and read_noted(throttle) or {}, nil
    throttle.counts, throttle.number = {}, 0
  end
  if number then
    read_rate(throttle, tonumber(used) or 0, number, unit_us)
  end
  if most then
    if throttle.number > 0 and throttle.number + throttle.room >= most then
      find_finished(throttle, zset, hash, read_noted(throttle), now)
    end
    throttle.room = math.min(throttle.room, most - throttle.number)
  end
  throttle.room = math.max(throttle.room, 0)
  return throttle
end

-- Returns for how many ms nothing more may be received; 0 if something may be. It is at most 5,000, since the limits may
-- be changed. It is negative if a message in flight that is deleted or released ends it earlier.
local function throttled_ms(throttle, now)
  if throttle.interval then
    local us = throttle.used - (throttle.burst - 1) * throttle.interval - throttle.us
    if us > 0 then
      return math.min(math.ceil(us / 1000), 5000)
    end
  end
  if throttle.most and throttle.number >= throttle.most then
    return -math.max(math.min(math.ceil(throttle.next_end - now), 5000), 1)
  end
  return 0
end
