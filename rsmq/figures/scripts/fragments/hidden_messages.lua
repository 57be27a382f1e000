-- The hidden messages of a queue by state, for read_queues.lua.
-- @include queue.lua
-- @include hidden.lua

-- Returns what hidden.lua returns; nothing if the queue does not exist.
local function hidden_messages(hash, zset, options)
  return queue(hash) and count_hidden_states(hash, zset, options.now, options.sample)
end
