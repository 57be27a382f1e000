-- Messages of ordered groups in a queue whose field x:limited says that several messages of a group may be in flight.
-- @include digits.lua
-- @include groups.lua

-- Holds a message back again that is due while an earlier one of its group is in the queue, and returns whether it did. The
-- time of its record is then 0, which says that a receive count does not mean that another client has shown it. In the order
-- of the writes, a cut leaves it in both lists, and a sweep makes it due.
local function put_off(zset, hash, id, now)
  local _, group = group_of(zset, id)
  if not group or string.byte(group) == 1 or not has_local_lists(zset) then
    return false
  end
  local first = first_of_group(zset, zset .. ':x:admitted', group)
  if not first or first == id then
    return false
  end
  local member = group .. '\0' .. id
  redis.call('ZADD', zset .. ':x:held_back', '0', member)
  if redis.call('HGET', hash, id .. ':rc') then
    redis.call('HSET', zset .. ':x:group_of', id, '0:' .. group)
  end
  redis.call('ZADD', zset, 'XX', digits(now + 86400000), id)
  redis.call('ZREM', zset .. ':x:admitted', member)
  return true
end
