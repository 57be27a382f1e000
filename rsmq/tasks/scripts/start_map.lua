-- Stores the record of a map, before its messages are sent, if the queue of the next task accepts that. A record that is
-- there is left as it is.
--
-- KEYS[1] map       hash     the record, as in finish_messages.lua
-- KEYS[2] to_hash   hash     the attributes of the queue of the next task
-- ARGV[1] messages  integer  how many messages it will have, numbered from 0
-- ARGV[2] size      integer  the size of the next task in UTF-16 code units
-- ARGV[3] body      bytes    the next task
-- ARGV[4] lifetime  integer  ms for which the record is stored
-- ARGV[5] kept      string   '1' if the next task takes the results of the messages
--
-- returns 1 it was stored, 0 it was there
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG; then nothing is changed
-- source  none in Node
-- @include digits.lua
-- @include sending.lua
-- @include variadic.lua

local map, to_hash = KEYS[1], KEYS[2]
local messages, size, body, lifetime, kept = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local stored, refusal = sendable(to_hash, size, '', 0)
if not stored then
  return refusal
end
if redis.call('HEXISTS', map, 'then') == 1 then
  return 0
end
local fields = {'then', size .. ':' .. body}
if kept == '1' then
  fields = {'then', fields[2], 'left', messages, 'total', messages, 'size', '0'}
end
for number = 0, messages - 1 do
  fields[#fields + 1], fields[#fields + 2] = digits(number), ''
end
variadic('HSET', map, fields)
redis.call('PEXPIRE', map, lifetime)
return 1
