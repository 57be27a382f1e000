-- Removes fields of ids that are not in the queue: counters without a body, or bodies with their counters.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- ARGV[1] bodies    integer     1 = bodies too, 0 = only of ids that have none
-- ARGV[2...] ids    strings     the ids
--
-- returns the number of ids whose fields were removed
-- errors  none
-- source  none in Node
-- @include reserved.lua
-- @include full.lua

local hash, zset = KEYS[1], KEYS[2]
local bodies = ARGV[1]
local ids = ARGV

local number = 0
allow_removal(zset, hash)
for at = 2, #ids do
  local id = ids[at]
  if not redis.call('ZSCORE', zset, id) and not is_reserved(id) and (bodies == '1' or redis.call('HEXISTS', hash, id) == 0) then
    number = number + math.min(redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr', id .. ':meta'), 1)
  end
end
return number
