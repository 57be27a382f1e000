-- When messages that a consumer has received are visible again, for read_queues.lua.

-- Returns for each receipt of the queue the score of its message; false for one that was deleted, moved, or received again.
local function held_messages(hash, zset, options)
  local scores = {}
  for at = options.first, options.last, 2 do
    local id, count = options.words[at], options.words[at + 1]
    scores[#scores + 1] = redis.call('HGET', hash, id .. ':rc') == count and redis.call('ZSCORE', zset, id)
  end
  return scores
end
