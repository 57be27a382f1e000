-- Removes messages from another system's sorted set, and adds them to a queue, or sets them aside for
-- another server.
--
-- KEYS[1] hash         hash, string      the queue's attributes, bodies and counters; or the lock of the
--                                        run
-- KEYS[2] zset         sorted set, hash  the queue's message ids; or the hash of messages set aside
-- KEYS[3] copied       hash              digests of messages that were copied before, and the watermark;
--                                        or as zset
-- KEYS[4] unique       hash              queue: message ids by unique_key; the queue's hash again = without
--                                        unique_keys; aside: as zset
-- KEYS[5] source       sorted set        the source
-- ARGV[1] to           string            'queue' or 'aside'
-- ARGV[2] channel      string            queue: channel for the number of messages; '' = none
-- ARGV[3] before       string            queue: the watermark that the run has read, as in
--                                        fragments/incoming.lua; aside: the run
-- ARGV[4] after        string            queue: the watermark behind these messages; aside: the target
-- ARGV[5] field        string            queue: the field of the watermark; '' = there is none
-- ARGV[6] lifetime     integer           queue: ms for which the watermark is kept
-- ARGV[7...] messages  strings           for each message the element and a row as in
--                                        fragments/incoming.lua
--
-- returns a digit for each message: 1 it was moved; 2 it was removed from the source only, since it was
--         copied before; 0 it is not in the source any more; 4 for all: the watermark has
--         changed, nothing was removed
-- errors  QUEUENOTFOUND, RUNREPLACED; then nothing is removed
-- source  none in Node
-- @include full.lua
-- @include variadic.lua
-- @include copies.lua
-- @include incoming.lua

local hash, zset, copied, unique, source = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local to, channel, before, after, field = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lifetime = ARGV[6]
local messages = ARGV

local number = (#messages - 6) / 8
local refusal = check_destination(to, hash, copied, field, before, after, number)
if refusal then
  return refusal
end
allow_when_full(source)

local has_copies = to == 'queue' and is_of_queue(copied, hash)
local outcomes, rows, elements = {}, {}, {}
for at = 7, #messages, 8 do
  local outcome = '0'
  if redis.call('ZSCORE', source, messages[at]) then
    outcome = append_unless_copied(rows, messages, at + 1, has_copies, copied)
    elements[#elements + 1] = messages[at]
  end
  outcomes[#outcomes + 1] = outcome
end
local added = store(to, hash, zset, copied, unique, rows, field, after, lifetime)
variadic('ZREM', source, elements)
publish_count(channel, zset, added)
return table.concat(outcomes)
