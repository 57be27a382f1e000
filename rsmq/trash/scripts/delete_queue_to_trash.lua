-- Deletes a queue as delete_queue.lua does, and keeps it for ten minutes. Constant time.
--
-- KEYS[1] trash       hash    what can be restored
-- KEYS[2] queues      set     the names of all queues
-- KEYS[3] hash        hash    the queue's attributes, bodies and counters
-- KEYS[4] zset        sorted set  the queue's message ids
-- KEYS[5...] renamed  keys    of these two and of the queue's extension data the key, and the one that it gets
-- ARGV[1] id          string  of the deletion
-- ARGV[2] facts       string  what else is stored of it
-- ARGV[3] names       string  the names of the keys, with commas between them
-- ARGV[4] name        string  the queue's name
--
-- returns {ms of the deletion, the number of its messages}, of an earlier one with this id too; {ms, -1} if there was
--         nothing to delete
-- errors  TRASHOFF
-- source  none in Node; the queue is as after delete_queue.lua
-- @include time_ms.lua
-- @include trash.lua
-- @include emptying.lua
-- @include keeping.lua

local trash, queues, hash, zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local renamed = KEYS
local id, facts, names, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now = server_time_ms()
local earlier = deletion_of(trash, id)
if earlier then
  return {earlier.ms, earlier.messages}
end
redis.call('HMGET', hash, 'vt') -- fails on a key of another type, which is not a queue's
local messages = redis.call('ZCARD', zset)
local off = trash_off(trash, now)
if off then
  return off
end
local lives, refusal = lives_of(renamed, 5, trash)
if not lives then
  return refusal
end
if lives[1] == -2 and lives[2] == -2 then
  redis.call('SREM', queues, name)
  return {now, -1}
end
local kept = names_of(lives, names, now)
redis.call('SREM', queues, '\0none')
put_deletion(trash, id, {state = 'kept', kind = 'delete-queue', ms = now, messages = messages, names = kept,
  facts = facts})
redis.call('SREM', queues, name)
keep_keys(renamed, 5, lives)
return {now, messages}
