-- Messages that are added as they were, in rows of id, body, score, receive count and time of the
-- first receive. An empty score means now; an empty count or time means none.
-- @include limits.lua
-- @include reserved.lua
-- @include totals.lua
-- @include variadic.lua

-- Adds the messages whose ids are not in the queue, of `rows` from index `at` on, without the limits that they had
-- there before. Returns how many.
local function restore(hash, zset, rows, at, now)
  local fields, members, number = {}, {}, 0
  for row = at, #rows, 5 do
    local id = rows[row]
    if not is_reserved(id) and not redis.call('ZSCORE', zset, id) then
      number = number + 1
      fields[#fields + 1], fields[#fields + 2] = id, rows[row + 1]
      members[2 * number - 1] = rows[row + 2] == '' and now or rows[row + 2]
      members[2 * number] = id
      for place, name in ipairs({':rc', ':fr'}) do
        if rows[row + 2 + place] ~= '' then
          fields[#fields + 1], fields[#fields + 2] = id .. name, rows[row + 2 + place]
        end
      end
    end
  end
  if number > 0 then
    local limited = redis.call('HGET', hash, 'x:limited')
    require_local_limits(zset, limited)
    redis.call('ZADD', zset, 'XX', '0', '\0none')
    for at = 2, has_limits(limited) and #members or 0, 2 do
      forget_limits(zset, members[at])
    end
    add_to(hash, 'totalsent', number)
    variadic('HSET', hash, fields)
    variadic('ZADD', zset, members)
  end
  return number
end
