-- Removes messages from an RSMQ queue, unless they were received meanwhile, and adds them to another
-- queue with other keys, or sets them aside for another server.
--
-- KEYS[1] hash          hash, string      the queue's attributes, bodies and counters; or the lock of the
--                                         run
-- KEYS[2] zset          sorted set, hash  the queue's message ids; or the hash of messages set aside
-- KEYS[3] copied        hash              digests of messages that were copied before, and the watermark;
--                                         or as zset
-- KEYS[4] unique        hash              queue: the queue's hash again; aside: as zset
-- KEYS[5] source_hash   hash              bodies and counters of the messages
-- KEYS[6] source_zset   sorted set        their ids
-- KEYS[7] source_copied hash              digests of messages that were copied to the source: those of
--                                         removed messages are deleted, so that they may be copied again
-- ARGV[1] to            string            'queue' or 'aside'
-- ARGV[2] channel       string            queue: channel for the number of messages; '' = none
-- ARGV[3] before        string            queue: the watermark that the run has read, as in
--                                         fragments/incoming.lua; aside: the run
-- ARGV[4] after         string            queue: the watermark behind these messages; aside: the target
-- ARGV[5] field         string            queue: the field of the watermark; '' = there is none
-- ARGV[6] lifetime      integer           queue: ms for which the watermark is kept
-- ARGV[7...] messages   strings           for each message its id, the score that was read, and a row
--                                         as in fragments/incoming.lua
--
-- returns a digit for each message: 1 it was moved; 2 it was removed from the source only, since it was
--         copied before; 0 it stays or is gone: its score has changed, it was deleted, or its body was
--         added or deleted since it was read; 3 it stays, as its id has another body in the queue;
--         4 for all: the watermark has changed, nothing was removed
-- errors  QUEUENOTFOUND, RUNREPLACED; then nothing is removed
-- source  none in Node
-- @include incoming.lua
-- @include reserved.lua
-- @include full.lua
-- @include leaving.lua
-- @include variadic.lua
-- @include copies.lua

local hash, zset, copied, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local source_hash, source_zset, source_copied = KEYS[5], KEYS[6], KEYS[7]
local to, channel, before, after, field = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lifetime = ARGV[6]
local messages = ARGV

local number = (#messages - 6) / 9
local refusal = check_destination(to, hash, copied, field, before, after, number)
if refusal then
  return refusal
end
allow_removal(source_zset, source_hash)
redis.call('HDEL', source_copied, '')

local has_copies = to == 'queue' and is_of_queue(copied, hash)
local outcomes, rows, ids, fields, digests = {}, {}, {}, {}, {}
for at = 7, #messages, 9 do
  local id, outcome = messages[at], '0'
  local score, reserved = redis.call('ZSCORE', source_zset, id), is_reserved(id)
  local body = not reserved and redis.call('HGET', source_hash, id)
  local has_body = messages[at + 3] ~= '' -- else it is a ghost id
  if score and tonumber(score) == tonumber(messages[at + 1]) and has_body == (body and true) then
    local target_body = has_body and to == 'queue' and redis.call('HGET', hash, messages[at + 3])
    if target_body and target_body ~= messages[at + 4] then
      outcome = '3'
    else
      outcome = append_unless_copied(rows, messages, at + 2, has_copies, copied)
      ids[#ids + 1], digests[#digests + 1] = id, messages[at + 2]
      for _, name in ipairs(reserved and {} or {'', ':rc', ':fr', ':meta'}) do
        fields[#fields + 1] = id .. name
      end
    end
  end
  outcomes[#outcomes + 1] = outcome
end
local added = store(to, hash, zset, copied, unique, rows, field, after, lifetime)
variadic('ZREM', source_zset, ids)
variadic('HDEL', source_hash, fields)
note_left(source_zset, source_hash, ids)
variadic('HDEL', source_copied, digests)
publish_count(channel, zset, added)
return table.concat(outcomes)
