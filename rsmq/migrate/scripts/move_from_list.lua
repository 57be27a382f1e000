-- Removes messages from another system's list, at the end where its consumers receive them, and
-- adds them to a queue, or sets them aside for another server.
--
-- KEYS[1] hash         hash, string      the queue's attributes, bodies and counters; or the lock of the run
-- KEYS[2] zset         sorted set, hash  the queue's message ids; or the hash of messages set aside
-- KEYS[3] copied       hash              digests of messages that were copied before, and the watermark;
--                                        or as zset
-- KEYS[4] unique       hash              queue: message ids by unique_key; the queue's hash again = without
--                                        unique_keys; aside: as zset
-- KEYS[5] list         list              the source
-- KEYS[6...] own_keys  any               a key of each message, removed with it; or none for all of them
-- ARGV[1] to           string            'queue' or 'aside'
-- ARGV[2] channel      string            queue: channel for the number of messages; '' = none
-- ARGV[3] before       string            queue: the watermark that the run has read, as in
--                                        fragments/incoming.lua; aside: the run
-- ARGV[4] after        string            queue: the watermark behind these messages; aside: the target
-- ARGV[5] field        string            queue: the field of the watermark; '' = there is none
-- ARGV[6] lifetime     integer           queue: ms for which the watermark is kept
-- ARGV[7] side         string            the consumers' end: 'left' or 'right'
-- ARGV[8...] messages  strings           for each message, the next one first, the element and a row
--                                        as in fragments/incoming.lua
--
-- returns a digit for each message: 1 it was moved; 2 it was removed from the source only, since it was
--         copied before; 0 it is not the next element any more, or it has no digest and its id is at
--         the target already: an earlier attempt has moved it; 4 for all: the watermark has changed,
--         nothing was removed
-- errors  QUEUENOTFOUND, RUNREPLACED; then nothing is removed
-- source  none in Node
-- @include copies.lua
-- @include incoming.lua

local hash, zset, copied, unique, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local own_keys = KEYS
local to, channel, before, after, field = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lifetime, side = ARGV[6], ARGV[7]
local messages = ARGV

local number = (#messages - 7) / 8
local refusal = check_destination(to, hash, copied, field, before, after, number)
if refusal then
  return refusal
end
-- Changes nothing. A key of another type, or a user without the right, fails here and not half-way.
-- When memory is full, Redis allows this write, and then the others of the script.
redis.call('LTRIM', list, '0', '-1')

local items = redis.call('LRANGE', list, side == 'left' and 0 or -number, side == 'left' and number - 1 or -1)
local has_copies = to == 'queue' and is_of_queue(copied, hash)
local outcomes, rows, removed, keys = {}, {}, 0, {}
for at = 8, #messages, 8 do
  local element = items[side == 'left' and removed + 1 or #items - removed]
  local outcome = '0'
  if element == messages[at] and not is_at_target(to, zset, messages[at + 1], messages[at + 2]) then
    outcome = append_unless_copied(rows, messages, at + 1, has_copies, copied)
    removed = removed + 1
    keys[#keys + 1] = own_keys[6 + #outcomes]
  end
  outcomes[#outcomes + 1] = outcome
end
local added = store(to, hash, zset, copied, unique, rows, field, after, lifetime)
redis.call('LTRIM', list, side == 'left' and removed or 0, side == 'left' and -1 or -1 - removed)
for each = 1, #keys do
  redis.call('UNLINK', keys[each])
end
publish_count(channel, zset, added)
return table.concat(outcomes)
