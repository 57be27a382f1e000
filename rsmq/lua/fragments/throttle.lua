-- Receives within the limits of a queue, which throttle_state.lua describes.
-- @include digits.lua
-- @include local_keys.lua
-- @include variadic.lua

-- Returns the same as read_throttle, with the functions of add_functions. It fails, before any
-- change, without the right to the sorted set, and if that is on another node of a cluster. The other functions are
-- inside, since to define them takes time, and most queues have no limits.
local function open_throttle(zset, hash, text, now, want, pops)
  -- @include throttle_state.lua
  -- @include throttle_use.lua
  local throttle = read_throttle(zset, hash, text, now, want, pops)
  if throttle then
    require_local_beside(zset, ':x:running')
    redis.call('ZREM', throttle.key, 'x:') -- removes nothing; Redis then allows the rest if memory is full
    variadic('ZREM', throttle.key, throttle.gone)
    if throttle.is_late then
      redis.call('ZADD', throttle.key, digits(throttle.used), '')
    end
    add_functions(throttle)
  end
  return throttle
end
