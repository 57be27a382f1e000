-- Takes messages out of an RSMQ queue, unless they were received meanwhile, and puts them into
-- another one with other keys, or aside for another server.
--
-- KEYS[1] hash       hash              the queue's attributes, bodies and counters; or as zset
-- KEYS[2] zset       sorted set, hash  the queue's message ids; or what is aside
-- KEYS[3] copied     hash              digests of what was copied before; or as zset
-- KEYS[4] from_hash  hash              bodies and counters of the messages
-- KEYS[5] from_zset  sorted set        their ids
-- KEYS[6] from_known hash              digests of what was copied to there: what leaves may come back
-- ARGV[1] to         string            'queue' or 'aside'
-- ARGV[2] channel    string            where to publish the number of messages; '' = don't
-- ARGV[3...] given   strings           for each message its id, the score that was read, and a row
--                                      as in fragments/landing.lua
--
-- returns a digit for each message: 1 it was taken, 2 too, but copied before, and goes nowhere, 0 it
--         is not there any more, was received, or has a body meanwhile, 3 its id has another body
--         in the queue
-- errors  QUEUENOTFOUND; then nothing is taken
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include full.lua
-- @include totals.lua
-- @include variadic.lua
-- @include restoring.lua
-- @include copies.lua
-- @include landing.lua

local hash, zset, copied = KEYS[1], KEYS[2], KEYS[3]
local from_hash, from_zset, from_known = KEYS[4], KEYS[5], KEYS[6]
local to, channel = ARGV[1], ARGV[2]
local given = ARGV

if to == 'queue' and not queue(hash) then
  return queue_not_found(hash)
end
allow_removal(from_zset, from_hash)
redis.call('HDEL', from_known, '')

local counts = to == 'queue' and is_of_queue(copied, hash)
local told, rows, ids, fields, digests = {}, {}, {}, {}, {}
for at = 3, #given, 8 do
  local id, answer = given[at], '0'
  local score, reserved = redis.call('ZSCORE', from_zset, id), is_reserved(id)
  local body = not reserved and redis.call('HGET', from_hash, id)
  local goes = given[at + 3] ~= '' -- else it is an id without a body
  if score and tonumber(score) == tonumber(given[at + 1]) and goes == (body and true) then
    local there = goes and to == 'queue' and redis.call('HGET', hash, given[at + 3])
    if there and there ~= given[at + 4] then
      answer = '3'
    else
      answer = go_on(rows, given, at + 2, counts, copied)
      ids[#ids + 1], digests[#digests + 1] = id, given[at + 2]
      for _, name in ipairs(reserved and {} or {'', ':rc', ':fr', ':meta'}) do
        fields[#fields + 1] = id .. name
      end
    end
  end
  told[#told + 1] = answer
end
local came = put(to, hash, zset, rows)
variadic('ZREM', from_zset, ids)
variadic('HDEL', from_hash, fields)
variadic('HDEL', from_known, digests)
announce(channel, zset, came)
return table.concat(told)
