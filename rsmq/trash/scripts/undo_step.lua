-- Restores some of the messages that were removed from a queue, and in the end what else is kept; one step.
--
-- KEYS[1] trash       hash     what can be restored
-- KEYS[2] hash        hash     the queue's attributes, bodies and counters
-- KEYS[3] kept_hash   hash     what is kept of it
-- KEYS[4] zset        sorted set  the queue's message ids
-- KEYS[5] kept_zset   sorted set  those that are kept
-- KEYS[6...] beside   keys     of the extension data, that by message id first, the key and the one that keeps it
-- ARGV[1] id          string   of the deletion
-- ARGV[2] names       string   the names of the keys, with commas between them
-- ARGV[3] by_id       integer  how many keys of extension data are by message id
-- ARGV[4] most        integer  messages to move at most
-- ARGV[5] room        integer  bytes of bodies to move, except for the first body
--
-- returns {1 if it is done, else 0; the messages restored; those that are in the queue already}
-- errors  CANNOTUNDO
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include trash.lua
-- @include undoable.lua
-- @include restorable.lua
-- @include restoring_kept.lua

local trash, hash, kept_hash, zset, kept_zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local beside = KEYS
local id, names, by_id, most, room = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local now = server_time_ms()
local deletion, found = restorable(trash, beside, id, names, now)
if not deletion then
  return found
end
allow_restoring(zset, hash)
for _, each in ipairs(found) do
  redis.call('PEXPIRE', each[2], digits(life_ms()))
end
deletion.state = 'undoing'
put_deletion(trash, id, deletion)
local restored, in_queue = 0, 0
if redis.call('EXISTS', kept_zset) == 1 then
  local facts = {unpack(beside, 6, 5 + 2 * tonumber(by_id))}
  restored, in_queue = restore_some(hash, kept_hash, zset, kept_zset, facts, found, now, tonumber(most),
    tonumber(room))
elseif not restore_fields(found, hash) then
  restore_expiries(found, hash, now)
  finish(trash, id, deletion, found)
  return {1, 0, 0}
end
restore_expiries(found, hash, now)
return {0, restored, in_queue}
