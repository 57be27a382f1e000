-- The checks before messages are restored to their queue.
-- @include full.lua
-- @include queue.lua
-- @include undoable.lua

-- Returns a deletion, and its kept keys as kept_keys has them; or nil and a refusal. The pairs of keys begin at 2, with
-- the queue's hash and the one that keeps it.
local function restorable(trash, keys, id, names, now)
  local stored = queue(keys[2], 'created')
  local deletion, refusal = undoable(trash, id, now, stored, stored and stored[4], keys[3])
  if not deletion then
    return nil, refusal
  end
  local found, evicted = kept_keys(keys, 2, deletion, names, now)
  return found and deletion, found or evicted
end

-- Fails if the user lacks a right, before any change.
local function allow_restoring(zset, hash)
  allow_removal(zset, hash)
  redis.call('ZADD', zset, 'XX', '0', '\0none')
end
