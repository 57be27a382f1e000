-- The server's clock in microseconds, from which the ids of new messages are made.

local function server_time_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
