-- Moves messages that are as someone has read them to another queue, with their counters.
--
-- KEYS[1] to_hash   hash        the destination's attributes, bodies and counters
-- KEYS[2] to_zset   sorted set  the destination's message ids
-- KEYS[3] hash      hash        the queue's attributes, bodies and counters
-- KEYS[4] zset      sorted set  the queue's message ids
-- ARGV[1] strict    string      '1' = change nothing unless all are as they were
-- ARGV[2...] rows   strings     the messages, as in fragments/unchanged.lua
--
-- returns the number of messages that were moved; -1 if nothing was changed because of strict
-- errors  QUEUENOTFOUND
-- source  none in Node; the messages are as after move_messages.lua
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include full.lua
-- @include local_keys.lua
-- @include local_groups.lua
-- @include regrouping.lua
-- @include limits.lua
-- @include dead_letters.lua
-- @include selected.lua
-- @include held_back.lua
-- @include leaving.lua

local to_hash, to_zset, hash, zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local strict = ARGV[1]
local rows = ARGV

local stored = queue(to_hash, 'x:limited')
if not stored then
  return queue_not_found(to_hash)
elseif not queue(hash) then
  return queue_not_found(hash)
end
allow_removal(to_zset, to_hash) -- these as in move_messages.lua
redis.call('ZADD', to_zset, 'XX', '0', '\0none')
require_local_beside(to_zset, ':x:unbegun')
require_local_limits(to_zset, stored[4])
require_local_groups_of(to_zset, rows)
allow_removal(zset, hash)
require_local_beside(zset, ':x:unbegun')
local ids = selected_ids(hash, zset, rows, 2, strict)
if not ids then
  return -1
end
local now, moved = digits(server_time_ms()), {}
local to = {hash = to_hash, zset = to_zset, has_limits = stored[4]}
for _, id in ipairs(ids) do
  if redis.call('HEXISTS', hash, id) == 1 and not is_reserved(id) then
    local received = redis.call('HEXISTS', hash, id .. ':rc') == 1
    local due = received and now or due_of_held_back(zset, hash, id) or redis.call('ZSCORE', zset, id)
    transfer(zset, hash, to, id, due)
    note_left(zset, hash, {id})
    moved[#moved + 1] = id
  end
end
regroup(to_zset, to_hash, groups_of(to_zset, moved), tonumber(now))
return #moved
