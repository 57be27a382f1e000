-- The hidden messages of a queue, all or a sample: how many were received, wait for a retry, or are held back.
-- @include digits.lua
-- @include held_back.lua
-- @include retrying.lua
-- @include sampled.lua

-- Returns {hidden messages, how many of them were looked at, received ones among these without those that wait for a
-- retry, those that wait for a retry, those that are held back}.
local function count_hidden_states(hash, zset, now, most)
  local visible = redis.call('ZCOUNT', zset, '-inf', digits(now))
  local hidden = redis.call('ZCARD', zset) - visible
  local ids = hidden > 0 and hidden_ids(zset, visible, hidden, most) or {}
  local fields = {}
  for at, id in ipairs(ids) do
    fields[at] = id .. ':rc'
  end
  local counts = #ids > 0 and redis.call('HMGET', hash, unpack(fields)) or {}
  local received, retrying, held_back = 0, 0, 0
  for at, failure in ipairs(errors_of(zset, hash, ids, counts)) do
    retrying = retrying + (failure and 1 or 0)
    received = received + (counts[at] and not failure and 1 or 0)
    held_back = held_back + (not counts[at] and due_of_held_back(zset, hash, ids[at]) and 1 or 0)
  end
  return {hidden, #ids, received, retrying, held_back}
end
