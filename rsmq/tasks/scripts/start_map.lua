-- Stores the record of a map, before its messages are sent.
--
-- KEYS[1] map       hash     the record, as in finish_task.lua
-- ARGV[1] messages  integer  how many messages it will have, numbered from 0
-- ARGV[2] body      bytes    the next task, with its size before it: 'SIZE:BODY'
-- ARGV[3] lifetime  integer  ms for which the record is stored
--
-- returns 1
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include variadic.lua

local map = KEYS[1]
local messages, body, lifetime = ARGV[1], ARGV[2], ARGV[3]

local fields = {'then', body}
for number = 0, messages - 1 do
  fields[#fields + 1], fields[#fields + 2] = digits(number), ''
end
variadic('HSET', map, fields)
redis.call('PEXPIRE', map, lifetime)
return 1
