-- Removes messages from another system's list, at the end where its consumers receive them, and
-- adds them to a queue, or sets them aside for another server.
--
-- KEYS[1] hash         hash              the queue's attributes, bodies and counters; or as zset
-- KEYS[2] zset         sorted set, hash  the queue's message ids; or the hash of messages set aside
-- KEYS[3] copied       hash              digests of messages that were copied before; or as zset
-- KEYS[4] list         list              the source
-- KEYS[5...] own_keys  any               a key of each message, removed with it; or none for all of them
-- ARGV[1] to           string            'queue' or 'aside'
-- ARGV[2] side         string            the consumers' end: 'left' or 'right'
-- ARGV[3] channel      string            channel for the number of messages; '' = none
-- ARGV[4...] messages  strings           for each message, the next one first, the element and a row
--                                        as in fragments/incoming.lua
--
-- returns a digit for each message: 1 it was moved; 2 it was removed from the source only, since it was
--         copied before; 0 it is not the next element any more, or it has no digest and its id is at
--         the target already: an earlier attempt has moved it
-- errors  QUEUENOTFOUND; then nothing is removed
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua
-- @include reserved.lua
-- @include totals.lua
-- @include variadic.lua
-- @include restoring.lua
-- @include copies.lua
-- @include incoming.lua

local hash, zset, copied, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local own_keys = KEYS
local to, side, channel = ARGV[1], ARGV[2], ARGV[3]
local messages = ARGV

if to == 'queue' and not queue(hash) then
  return queue_not_found(hash)
end
-- Changes nothing. A key of another type, or a user without the right, fails here and not half-way.
-- When memory is full, Redis allows this write, and then the others of the script.
redis.call('LTRIM', list, '0', '-1')

local number = (#messages - 3) / 7
local items = redis.call('LRANGE', list, side == 'left' and 0 or -number, side == 'left' and number - 1 or -1)
local has_copies = to == 'queue' and is_of_queue(copied, hash)
local outcomes, rows, removed, keys = {}, {}, 0, {}
for at = 4, #messages, 7 do
  local element = items[side == 'left' and removed + 1 or #items - removed]
  local outcome = '0'
  if element == messages[at] and not is_at_target(to, zset, messages[at + 1], messages[at + 2]) then
    outcome = append_unless_copied(rows, messages, at + 1, has_copies, copied)
    removed = removed + 1
    keys[#keys + 1] = own_keys[5 + #outcomes]
  end
  outcomes[#outcomes + 1] = outcome
end
local added = store(to, hash, zset, rows)
redis.call('LTRIM', list, side == 'left' and removed or 0, side == 'left' and -1 or -1 - removed)
for each = 1, #keys do
  redis.call('UNLINK', keys[each])
end
publish_count(channel, zset, added)
return table.concat(outcomes)
