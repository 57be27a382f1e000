-- The server's clock in milliseconds: scores and stamps are made of no other.

-- Whole milliseconds, as Node takes them for scores.
local function server_time_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
