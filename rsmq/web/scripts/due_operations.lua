-- Returns the operations that a runner may take.
--
-- KEYS[1] index      sorted set  ids of operations: ms from which one may be taken, or minus the ms of its end
-- ARGV[1] most       integer     how many to return at most
--
-- returns their ids
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local index = KEYS[1]
local most = ARGV[1]

return redis.call('ZRANGEBYSCORE', index, '0', digits(server_time_ms()), 'LIMIT', '0', most)
