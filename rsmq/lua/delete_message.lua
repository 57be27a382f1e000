-- Deletes a message by its id or its receipt.
--
-- KEYS[1] hash   hash        the queue's attributes, bodies and counters
-- KEYS[2] zset   sorted set  the queue's message ids
-- ARGV[1] id     string      the message's id
-- ARGV[2] count  integer     only while its receive count is this; '' = in any case
--
-- returns 1 if it was deleted, 0 if it is not in the queue, 2 if it was received again since
-- errors  none: a message of a missing queue counts as missing
-- source  npm rsmq 0.12.4 deleteMessage; fields are removed only if the id was in the sorted set

local hash, zset = KEYS[1], KEYS[2]
local id, count = ARGV[1], ARGV[2]

-- Always reads the hash, so that a key of another type fails here.
local counter = id .. ':rc'
local stored = redis.call('HGET', hash, counter)
if count ~= '' and stored ~= count and redis.call('ZSCORE', zset, id) then
  return 2
end
redis.call('HDEL', hash, '\0none') -- fails here if the user lacks the right, before any change
local removed = redis.call('ZREM', zset, id)
local reserved = false
if #id < 10 or string.byte(id) == 120 then
  -- @include reserved.lua
  reserved = is_reserved(id)
end
if removed == 1 and not reserved then
  -- As remove_message does, but without functions, which take time in such a frequent script.
  local meta = string.find(id, '%u') and id or id .. ':meta'
  redis.call('HDEL', hash, id, counter, id .. ':fr', meta)
  if string.byte(id, -1) == 114 then -- as in fragments/leaving.lua
    -- @include leaving.lua
    note_left(zset, hash, {id})
  end
end
return removed
