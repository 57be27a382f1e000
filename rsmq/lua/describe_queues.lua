-- Returns the attributes and counts of several queues of a namespace at one moment.
--
-- KEYS[1...] queues  hash and sorted set  of each queue: its hash, then its sorted set of ids
--
-- returns for each queue {{field values}, ids, hidden ids, score of the first hidden id or nil}; nil
--         for one that get_queue_attributes refuses, or whose keys have another type
-- errors  none
-- source  none in Node
-- @include queue.lua
-- @include attributes.lua
-- @include describe.lua

local queues = KEYS

local function read(hash, zset)
  local stored = queue(hash)
  if stored and stored_ms(stored[1]) and stored_ms(stored[2]) then
    return describe(hash, zset)
  end
  return false
end

local replies = {}
for at = 1, #queues, 2 do
  local has_read, reply = pcall(read, queues[at], queues[at + 1])
  replies[#replies + 1] = has_read and reply
end
return replies
