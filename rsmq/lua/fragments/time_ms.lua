-- The server's clock in milliseconds, the only clock of scores and times.

-- Returns whole milliseconds, as Node uses them for scores.
local function server_time_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
