-- The gauges of a queue. Exact for up to 40 hidden messages; of more, 40 at even distances are looked at.
-- @include digits.lua
-- @include sampled.lua

-- Returns the numbers of visible messages, of those in flight (received, and hidden) and of delayed ones, and
-- 1 + the age in seconds of the first visible one at `minute`, Unix minutes, or 0.
local function gauges_of(hash, zset, now, minute)
  local all = redis.call('ZCARD', zset)
  if all == 0 then
    return 0, 0, 0, 0
  end
  local visible = redis.call('ZCOUNT', zset, '-inf', digits(now))
  local hidden = all - visible
  local oldest = 0
  if visible > 0 then
    local first = redis.call('ZRANGE', zset, '0', '0', 'WITHSCORES')
    oldest = 1 + math.max(minute * 60 - math.floor(tonumber(first[2]) / 1000), 0)
  end
  if hidden == 0 then
    return visible, 0, 0, oldest
  end
  local ids = hidden_ids(zset, visible, hidden, 40)
  local fields = {}
  for at, id in ipairs(ids) do
    fields[at] = id .. ':rc'
  end
  local received = 0
  for _, count in ipairs(redis.call('HMGET', hash, unpack(fields))) do
    received = received + (count and 1 or 0)
  end
  local in_flight = math.floor(hidden * received / #ids + 0.5)
  return visible, in_flight, hidden - in_flight, oldest
end
