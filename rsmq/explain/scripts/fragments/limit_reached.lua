-- The limit of a queue that prevents its next receive.

-- Returns for how many ms, as throttled_ms returns them; 0 if none prevents it, or if the user may not read it.
local function limit_reached(zset, hash, now)
  -- @include throttle_state.lua
  local is_read, throttle = pcall(read_throttle, zset, hash, redis.call('HGET', hash, 'x:throttle'), now, 1)
  return is_read and throttle and throttled_ms(throttle, now) or 0
end
