-- Stores the record of a map, before its messages are sent, if the queue of the next task accepts that. A record that is
-- there is left as it is. If the first message was sent with its dedup_id, the map has ended, and has no record.
--
-- KEYS[1] map       hash     the record, as in finish_messages.lua
-- KEYS[2] to_hash   hash     the attributes of the queue of the next task
-- KEYS[3] hash      hash     the attributes of the queue of the messages; only with a dedup_id
-- KEYS[4] records   hash     its ids by dedup_id, as in fragments/dedup.lua; only with a dedup_id
-- ARGV[1] messages  integer  how many messages it will have, numbered from 0
-- ARGV[2] size      integer  the size of the next task in UTF-16 code units
-- ARGV[3] body      bytes    the next task
-- ARGV[4] lifetime  integer  ms for which the record is stored
-- ARGV[5] kept      string   '1' if the next task takes the results of the messages
-- ARGV[6] dedup_id  string   that of the first message; '' = none
--
-- returns 1 it was stored, 0 it was there, or the map has ended
-- errors  QUEUENOTFOUND, INVALIDVALUE, MESSAGETOOLONG; then nothing is changed
-- source  none in Node
-- @include dedup.lua
-- @include digits.lua
-- @include sending.lua
-- @include time_ms.lua
-- @include variadic.lua

local map, to_hash, hash, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local messages, size, body, lifetime, kept, dedup_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local stored, refusal = sendable(to_hash, size, '', 0)
if not stored then
  return refusal
end
if redis.call('HEXISTS', map, 'then') == 1 then
  return 0
end
if dedup_id ~= '' then
  local own = redis.call('HMGET', hash, 'created', 'x:named')
  if sent_before(records, dedup_id, own[1], own[2], server_time_ms() + 60000) then -- also when the messages are sent
    return 0
  end
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
