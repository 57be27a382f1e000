-- A sample of the hidden messages of a queue.
-- @include digits.lua

-- Returns the ids of up to `most` hidden messages, at even distances. `visible` messages are before the `hidden` ones.
local function hidden_ids(zset, visible, hidden, most)
  if hidden <= most then
    return redis.call('ZRANGE', zset, digits(visible), digits(visible + most - 1))
  end
  local ids = {}
  for at = 0, most - 1 do
    local rank = digits(visible + math.floor((at + 0.5) * hidden / most))
    ids[#ids + 1] = redis.call('ZRANGE', zset, rank, rank)[1]
  end
  return ids
end
