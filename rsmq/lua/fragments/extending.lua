-- Receives that take the next messages of a group behind the first one.
-- @include dead_letters.lua
-- @include digits.lua
-- @include expired.lua
-- @include groups.lua
-- @include marking.lua
-- @include totals.lua

-- Returns whether an id comes before another one in the order of Redis. Lua would compare texts by the locale.
local function precedes(left, right)
  for at = 1, #left do
    local one, other = string.byte(left, at), string.byte(right, at) or -1
    if one ~= other then
      return one < other
    end
  end
  return #left < #right
end

-- Returns the next messages of a group behind an id, in their order: the id of each, and whether it is held back.
local function behind(zset, group, id, most)
  local from, to, merged = '(' .. group .. '\0' .. id, '(' .. group .. '\1', {}
  local admitted = redis.call('ZRANGEBYLEX', zset .. ':x:admitted', from, to, 'LIMIT', '0', digits(most))
  local held_back = redis.call('ZRANGEBYLEX', zset .. ':x:held_back', from, to, 'LIMIT', '0', digits(most))
  local one, other = 1, 1
  while admitted[one] or held_back[other] do
    local is_held_back = not admitted[one] or (held_back[other] and precedes(held_back[other], admitted[one]))
    local member = is_held_back and held_back[other] or admitted[one]
    one, other = one + (is_held_back and 0 or 1), other + (is_held_back and 1 or 0)
    merged[#merged + 1] = {id = string.sub(member, #group + 2), is_held_back = is_held_back}
  end
  return merged
end

-- Returns whether the next message of a group may be received now: it is not in flight, not delayed, no dead letter and not
-- expired. `of` has the keys and the rules of its queue.
local function may_follow(of, next, count, now)
  local score = tonumber(redis.call('ZSCORE', of.zset, next.id))
  if next.is_held_back then
    local due = tonumber((group_of(of.zset, next.id))) or 0
    if due > now or (was_shown(of.zset, of.hash, next.id) and score > now) then
      return false
    end
  elseif score > now then
    return false
  end
  return not (of.dead and is_dead(of.zset, of.hash, next.id, count, of.dead))
    and not (of.expires and is_expired(of.zset, next.id, now, of.expires))
end

-- Adds the next messages of their groups to the messages that are due of a queue, each behind the one before it, up to
-- `most` messages with bodies of at most `room` bytes. Due messages of other groups behind them are left. With `size`, the
-- messages are for calls with so many each: a row is in one call, and has none that was received before, which may have a
-- call of its own.
local function extend_groups(of, most, room, now, size)
  local due, before = of.due, {}
  local wanted = {told = {}, again = {}, number = 0, size = 0, cleared = due.cleared, throttle = due.throttle, taken = {}}
  most = due.throttle and math.min(most, due.throttle.room) or most
  for at = 1, #due.again, 3 do
    before[due.again[at]] = at
  end
  local function add(id, body, count, first)
    local number = wanted.number + 1
    wanted.told[2 * number - 1], wanted.told[2 * number] = id, body
    wanted.number, wanted.size = number, wanted.size + #body
    if count then
      local last = #wanted.again
      wanted.again[last + 1], wanted.again[last + 2], wanted.again[last + 3] = number, count, first
    end
  end
  for each = 1, due.number do
    local id, body, at = due.told[2 * each - 1], due.told[2 * each], before[each]
    if wanted.number == most or (wanted.number > 0 and wanted.size + #body > room) then
      break
    end
    add(id, body, at and due.again[at + 1], at and due.again[at + 2])
    local _, group = group_of(of.zset, id)
    local last = size and math.min(most, math.ceil(wanted.number / size) * size) or most
    local is_ordered = group and string.byte(group) ~= 1 and has_local_lists(of.zset) and not (size and at)
    for _, next in ipairs(is_ordered and wanted.number < last and behind(of.zset, group, id, last - wanted.number) or {}) do
      local values = redis.call('HMGET', of.hash, next.id, next.id .. ':rc', next.id .. ':fr')
      if not is_gone(of.zset, next.id) then
        local count = whole(values[2])
        if not values[1] or wanted.size + #values[1] > room or wanted.number == last or size and count > 0
          or not may_follow(of, next, count, now) then
          break
        end
        add(next.id, values[1], values[2] and count + 1, values[3])
        next.member, wanted.taken[#wanted.taken + 1] = group .. '\0' .. next.id, next
      end
    end
  end
  of.due = wanted
end

-- Before the delivery of such messages: notes that several of a group are admitted.
local function begin_extension(of)
  if #of.due.taken > 0 then
    mark_limited(of.hash, of.limited, '2')
    for _, each in ipairs(of.due.taken) do
      redis.call('ZADD', of.zset .. ':x:admitted', '0', each.member)
    end
  end
end

-- After it: they are not held back any more.
local function end_extension(of, now)
  for _, each in ipairs(of.due.taken) do
    if each.is_held_back then
      redis.call('ZREM', of.zset .. ':x:held_back', each.member)
      local due, group = group_of(of.zset, each.id)
      if due == '0' then
        redis.call('HSET', of.zset .. ':x:group_of', each.id, digits(now) .. ':' .. group)
      end
    end
  end
end
