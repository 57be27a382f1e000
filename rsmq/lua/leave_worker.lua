-- Says that a worker has ended. What it still holds stays noted, for a successor.
--
-- KEYS[1] workers  hash    who is alive
-- KEYS[2] held     hash    what the worker of this name holds, as in fragments/held.lua
-- ARGV[1] name     string  the worker's name
-- ARGV[2] token    string  who says it
--
-- returns how many messages it still holds
-- errors  WORKERREPLACED
-- source  none in Node
-- @include workers.lua

local workers, held = KEYS[1], KEYS[2]
local name, token = ARGV[1], ARGV[2]

if not has_name(held, token) then
  return redis.error_reply('WORKERREPLACED ' .. held)
end
redis.call('HDEL', workers, name)
local left = redis.call('HLEN', held) - 1
if left == 0 then
  redis.call('UNLINK', held)
end
return left
