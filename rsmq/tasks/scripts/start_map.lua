-- Stores the record of a map, before its messages are sent, if the queue of the next task accepts that.
--
-- KEYS[1] map       hash     the record, as in finish_messages.lua
-- KEYS[2] to_hash   hash     the attributes of the queue of the next task
-- ARGV[1] messages  integer  how many messages it will have, numbered from 0
-- ARGV[2] size      integer  the size of the next task in UTF-16 code units
-- ARGV[3] body      bytes    the next task
-- ARGV[4] lifetime  integer  ms for which the record is stored
--
-- returns 1
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG; then nothing is changed
-- source  none in Node
-- @include digits.lua
-- @include sending.lua
-- @include variadic.lua

local map, to_hash = KEYS[1], KEYS[2]
local messages, size, body, lifetime = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored, refusal = sendable(to_hash, size, '', 0)
if not stored then
  return refusal
end
local fields = {'then', size .. ':' .. body}
for number = 0, messages - 1 do
  fields[#fields + 1], fields[#fields + 2] = digits(number), ''
end
variadic('HSET', map, fields)
redis.call('PEXPIRE', map, lifetime)
return 1
