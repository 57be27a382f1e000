-- Restores the messages of a queue that was purged, if few have come to it since: these are put into the kept keys,
-- which get their old names again. Constant time, however many are kept.
--
-- KEYS[1] trash       hash     what can be restored
-- KEYS[2] hash        hash     the queue's attributes, bodies and counters
-- KEYS[3] kept_hash   hash     what is kept of it
-- KEYS[4] zset        sorted set  the queue's message ids
-- KEYS[5] kept_zset   sorted set  those that are kept
-- KEYS[6...] beside   keys     of the extension data the key, and the one that keeps it
-- ARGV[1] id          string   of the deletion
-- ARGV[2] names       string   the names of the keys, with commas between them
-- ARGV[3] small       integer  fields and ids that have come to the queue, at most
--
-- returns {the messages restored, those that are in the queue already}; {-1, 0} if too many have come: nothing was done
-- errors  CANNOTUNDO
-- source  none in Node
-- @include time_ms.lua
-- @include trash.lua
-- @include undoable.lua
-- @include restorable.lua
-- @include merging.lua

local trash, hash, kept_hash, zset, kept_zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local beside = KEYS
local id, names, small = ARGV[1], ARGV[2], ARGV[3]

local now = server_time_ms()
local deletion, found = restorable(trash, beside, id, names, now)
if not deletion then
  return found
end
if deletion.state ~= 'kept' or size_of(zset, found) > tonumber(small) then
  return {-1, 0}
end
allow_restoring(zset, hash)
redis.call('RENAMENX', kept_hash, kept_hash) -- fails as well
put_deletion(trash, id, deletion)
local ids, in_queue = ids_of(zset, kept_zset)
merge(found, hash, zset, ids, now)
finish(trash, id, deletion, {})
return {deletion.messages - in_queue, in_queue}
