-- Removes ids that have no body, with their counters.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1...] ghosts strings     id, '1' if certainly no send of it is in progress or '', id ...
--
-- returns how many were removed
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include reserved.lua
-- @include full.lua
-- @include due.lua

local hash, zset = KEYS[1], KEYS[2]
local ghosts = ARGV

local now, number = server_time_ms(), 0
allow_removal(zset, hash)
for at = 1, #ghosts, 2 do
  local id = ghosts[at]
  if redis.call('ZSCORE', zset, id) and (is_reserved(id) or redis.call('HEXISTS', hash, id) == 0
    and (ghosts[at + 1] == '1' or not in_progress(zset, id, now))) then
    number = number + remove_message(zset, hash, id)
  end
end
return number
