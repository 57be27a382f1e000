-- Rows of messages of one group, each behind the one before it, which a part of a batch has together.
-- @include due_many.lua
-- @include extending.lua

-- Returns the queue `of` as in extending.lua, with the messages that are due and the next ones of their groups; whether these
-- have taken the place of others, so that the part is full; and the places of the messages that are behind the one before
-- them, or nil.
local function receive_rows(of, most, room, now)
  local last, is_full, taken, follows = of.due.told[2 * of.due.number - 1], true, {}, {}
  extend_groups(of, most, room, now)
  for _, each in ipairs(of.due.taken) do
    taken[each.id] = true
  end
  for each = 1, of.due.number do
    local id = of.due.told[2 * each - 1]
    is_full = is_full and id ~= last
    follows[#follows + 1] = taken[id] and each or nil
  end
  return is_full or of.due.number == most, follows[1] and follows or nil
end

-- Delivers them as deliver does.
local function deliver_rows(of, now, score)
  begin_extension(of)
  deliver(of.hash, of.zset, of.due, digits(now), score)
  end_extension(of, now)
end
