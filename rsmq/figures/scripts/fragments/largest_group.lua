-- The group or limit key with the most admitted messages of a queue, for read_queues.lua.
-- @include digits.lua

-- Returns it, how many admitted messages it has, how many it has held back, and the admitted ones of all groups. It is that
-- of most of 50 messages, in equal distances of those sorted by group. Nothing without groups.
local function largest_group(zset)
  local admitted, held_back = zset .. ':x:admitted', zset .. ':x:held_back'
  local total, counts, most = redis.call('ZCARD', admitted), {}, nil
  local looked = math.min(total, 50)
  for place = 0, looked - 1 do
    local at = digits(math.floor(place * total / looked))
    local group = string.match(redis.call('ZRANGE', admitted, at, at)[1], '^(.-)%z') or ''
    counts[group] = (counts[group] or 0) + 1
    most = counts[group] > (counts[most] or 0) and group or most
  end
  if not most then
    return
  end
  local from, to = '[' .. most .. '\0', '(' .. most .. '\1'
  return {most, digits(redis.call('ZLEXCOUNT', admitted, from, to)),
    digits(redis.call('ZLEXCOUNT', held_back, from, to)), digits(total)}
end
