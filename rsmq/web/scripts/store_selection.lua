-- Stores a selection in place of the oldest of the last ones.
--
-- KEYS[1] selections  hash     by place 'secret ms content', and under next the number of the next place
-- ARGV[1] secret      string   what its users must know
-- ARGV[2] content     string   the selection
-- ARGV[3] places      integer  selections that are kept
-- ARGV[4] life        integer  ms for which it is kept
--
-- returns {its place, now ms}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local selections = KEYS[1]
local secret, content, places, life = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now = server_time_ms()
local place = redis.call('HINCRBY', selections, 'next', 1) % tonumber(places)
redis.call('HSET', selections, digits(place), table.concat({secret, digits(now), content}, ' '))
redis.call('PEXPIRE', selections, life)
return {place, now}
