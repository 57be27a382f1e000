-- Reads the stored state of a push target, and replaces it if it is still the expected one.
--
-- KEYS[1] targets   hash    the states of push targets
-- ARGV[1] target    string  the target's field
-- ARGV[2] expected  string  the state that is replaced; '' is none
-- ARGV[3] state     string  the new state; '' deletes it; the expected one only reads
--
-- returns {ms now, the stored state after that, '' if there is none}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua

local targets = KEYS[1]
local target, expected, state = ARGV[1], ARGV[2], ARGV[3]

local stored = redis.call('HGET', targets, target) or ''
if stored == expected and state ~= expected then
  if state == '' then
    redis.call('HDEL', targets, target)
  else
    redis.call('HSET', targets, target, state)
  end
  stored = state
end
return {digits(server_time_ms()), stored}
