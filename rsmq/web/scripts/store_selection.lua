-- Stores a selection in place of the oldest of the last ones of its caller.
--
-- KEYS[1] selections  hash     by place 'secret ms content', and under next and the caller the number of the next place
-- ARGV[1] secret      string   what its users must know
-- ARGV[2] content     string   the selection
-- ARGV[3] places      integer  selections of a caller that are kept
-- ARGV[4] life        integer  ms for which it is kept
-- ARGV[5] caller      string   begins its places
--
-- returns {its place, now ms}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local selections = KEYS[1]
local secret, content, places, life, caller = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local now = server_time_ms()
local number = redis.call('HINCRBY', selections, 'next' .. caller, 1) % tonumber(places)
local place = caller .. digits(number)
redis.call('HSET', selections, place, table.concat({secret, digits(now), content}, ' '))
redis.call('PEXPIRE', selections, life)
return {place, now}
