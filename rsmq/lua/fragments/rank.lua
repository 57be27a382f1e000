-- The place of an id in a sorted set, also if the id is not there any more.

-- Returns whether a text is behind another one in the order of Redis, which is that of their bytes.
-- The operators of Lua compare by the locale of the server.
local function is_behind(text, other)
  for at = 1, math.min(#text, #other) do
    local byte, other_byte = string.byte(text, at), string.byte(other, at)
    if byte ~= other_byte then
      return byte > other_byte
    end
  end
  return #text > #other
end

-- Returns how many ids are in front of the place behind an id with a score. A user who may not call
-- ZRANK gets it from a search.
local function rank_behind(zset, score, id)
  if redis.call('ZSCORE', zset, id) == score then
    local rank = redis.pcall('ZRANK', zset, id)
    if type(rank) == 'number' then
      return rank + 1
    end
  end
  local low = redis.call('ZCOUNT', zset, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', zset, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_behind(redis.call('ZRANGE', zset, middle, middle)[1], id) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end
