-- The registered workers, for a script of a queue.
-- @include local_keys.lua

-- Returns all of them, {name, entry, name ...}; false if the user lacks the right.
local function registered_workers(zset, workers)
  require_local('EXISTS', zset, workers)
  local found = redis.pcall('HGETALL', workers)
  return not found.err and found
end
