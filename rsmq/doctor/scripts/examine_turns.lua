-- Returns groups and limit keys with a rate whose next turn is so far ahead that no message explains it.
--
-- KEYS[1] zset       sorted set  the queue's message ids
-- KEYS[2] rates      sorted set  times by key, as in fragments/rates.lua
-- KEYS[3] held_back  sorted set  the messages that are held back
-- ARGV[1] most       integer     how many are returned at most
--
-- returns {their number, {key ...}}
-- errors  none
-- source  none in Node
-- @include far_turns.lua

local zset, rates, held_back = KEYS[1], KEYS[2], KEYS[3]
local most = ARGV[1]

local _, limit = far_turns_from(zset, held_back)
return {redis.call('ZCOUNT', rates, limit, '+inf'), redis.call('ZRANGEBYSCORE', rates, limit, '+inf', 'LIMIT', '0', most)}
