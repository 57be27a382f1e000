-- Restores a queue that was deleted. Constant time.
--
-- KEYS[1] trash       hash    what can be restored
-- KEYS[2] queues      set     the names of all queues
-- KEYS[3] hash        hash    the queue's attributes, bodies and counters
-- KEYS[4] zset        sorted set  the queue's message ids
-- KEYS[5...] renamed  keys    of these two and of the queue's extension data the key, and the one that keeps it
-- ARGV[1] id          string  of the deletion
-- ARGV[2] names       string  the names of the keys, with commas between them
-- ARGV[3] name        string  the queue's name
--
-- returns the number of its messages
-- errors  CANNOTUNDO
-- source  none in Node
-- @include time_ms.lua
-- @include trash.lua
-- @include undoable.lua
-- @include expiries.lua

local trash, queues, hash, zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local renamed = KEYS
local id, names, name = ARGV[1], ARGV[2], ARGV[3]

local now = server_time_ms()
local deletion, refusal = undoable(trash, id, now, redis.call('EXISTS', hash, zset) > 0)
if not deletion then
  return refusal
end
local found, evicted = kept_keys(renamed, 5, deletion, names, now)
if not found then
  return evicted
end
redis.call('UNLINK', hash) -- this and the next ones fail if the user lacks a right, before any change
redis.call('RENAMENX', found[1][2], found[1][2])
put_deletion(trash, id, deletion)
redis.call('PERSIST', hash)
redis.call('SADD', queues, name)
rename_back(found, now)
finish(trash, id, deletion, {})
return deletion.messages
