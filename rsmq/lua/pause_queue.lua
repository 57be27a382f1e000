-- Pauses a queue for workers, or resumes it.
--
-- KEYS[1] hash   hash     the queue's attributes, bodies and counters
-- ARGV[1] pause  integer  1 pauses it, 0 resumes it
--
-- returns 1 if that changed anything, else 0
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua

local hash = KEYS[1]
local pause = ARGV[1]

local stored = queue(hash, 'x:paused')
if not stored then
  return queue_not_found(hash)
end
if pause == '1' and stored[4] then
  return 0 -- without a write, which is refused when memory is full
elseif pause == '1' then
  return redis.call('HSETNX', hash, 'x:paused', digits(server_time_ms()))
end
local is_changed = redis.call('HDEL', hash, 'x:paused')
if is_changed == 1 then -- the user may lack the right
  redis.pcall('HSET', hash, 'x:resumed', digits(server_time_ms()))
end
return is_changed
