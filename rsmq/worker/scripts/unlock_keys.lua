-- Unlocks keys, if the messages still have the locks.
--
-- KEYS[1] locks         hash     as in lock_keys.lua
-- ARGV[1...] messages   strings  for each message its id, its receive count and the field of its lock
--
-- returns the number of locks that were deleted
-- errors  none
-- source  none in Node

local locks = KEYS[1]
local messages = ARGV

local deleted = 0
for at = 1, #messages, 3 do
  local field = messages[at + 2]
  if redis.call('HGET', locks, field) == messages[at + 1] .. ':' .. messages[at] then
    deleted = deleted + redis.call('HDEL', locks, field)
  end
end
return deleted
