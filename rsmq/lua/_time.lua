-- The server's clock: the only clock that a score or a stamp is made of.

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Whole milliseconds, as Node takes them for scores.
local function server_time_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A number as decimal digits without an exponent.
local function digits(number)
  return string.format('%.0f', number)
end
