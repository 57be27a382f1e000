-- Claims the recording of the current minute: of any number of processes, one gets it.
--
-- KEYS[1] history   hash     the history of the namespace
-- ARGV[1] owner     string   names the process, for people
-- ARGV[2] latest    integer  ms of the minute after which it can't be claimed any more
--
-- returns {1 if the minute is claimed, else 0; now ms; the minute, Unix minutes}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local history = KEYS[1]
local owner, latest = ARGV[1], ARGV[2]

local now = server_time_ms()
local minute = math.floor(now / 60000)
local claimed = tonumber(redis.call('HGET', history, 'minute') or 0)
if claimed >= minute or now % 60000 > latest + 0 then
  return {0, digits(now), digits(minute)}
end
redis.call('HSET', history, 'minute', digits(minute), 'owner', owner)
return {1, digits(now), digits(minute)}
