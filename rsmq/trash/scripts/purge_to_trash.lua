-- Removes all messages of a queue as purge_queue.lua does, and keeps them for ten minutes. Constant time.
--
-- KEYS[1] trash       hash    what can be restored
-- KEYS[2] hash        hash    the queue's attributes, bodies and counters
-- KEYS[3] zset        sorted set  the queue's message ids
-- KEYS[4...] renamed  keys    of these two and of the queue's extension data the key, and the one that it gets
-- ARGV[1] id          string  of the deletion
-- ARGV[2] facts       string  what else is stored of it
-- ARGV[3] names       string  the names of the keys, with commas between them
--
-- returns {ms of the deletion, the number of ids removed}; of a deletion with this id that was made before, that
-- errors  QUEUENOTFOUND, TRASHOFF
-- source  none in Node; the queue is as after purge_queue.lua
-- @include time_ms.lua
-- @include queue.lua
-- @include attribute_names.lua
-- @include trash.lua
-- @include emptying.lua
-- @include keeping.lua

local trash, hash, zset = KEYS[1], KEYS[2], KEYS[3]
local renamed = KEYS
local id, facts, names = ARGV[1], ARGV[2], ARGV[3]

local now = server_time_ms()
local earlier = deletion_of(trash, id)
if earlier then
  return {earlier.ms, earlier.messages}
end
local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local removed = redis.call('ZCARD', zset)
local attributes = stored_attributes(hash)
local off = trash_off(trash, now)
if off then
  return off
end
redis.call('ZREM', zset, '\0none') -- these two as in purge_queue.lua
redis.call('HSET', hash, 'vt', stored[1])
local lives, refusal = lives_of(renamed, 4, trash)
if not lives then
  return refusal
end
local kept = names_of(lives, names, now)
put_deletion(trash, id, {state = 'kept', kind = 'purge', ms = now, messages = removed, names = kept, facts = facts})
keep_keys(renamed, 4, lives)
redis.call('HSET', hash, unpack(attributes))
return {now, removed}
