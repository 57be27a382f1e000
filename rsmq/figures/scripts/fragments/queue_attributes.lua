-- The attributes of a queue, for read_queues.lua.
-- @include queue.lua
-- @include attributes.lua
-- @include describe.lua

-- Returns what describe.lua returns; nothing if get_queue_attributes would refuse the queue.
local function queue_attributes(hash, zset)
  local stored = queue(hash)
  if stored and stored_ms(stored[1]) and stored_ms(stored[2]) then
    return describe(hash, zset)
  end
end
