-- Rows of messages of one group, each behind the one before it, which a part of a batch has together.
-- @include extending.lua

-- Returns a table with `due`, the messages that are due with the next ones of their groups, and whether these have taken the
-- place of others, so that the part `is_full`; begin and finish, which note the groups before and after the delivery; and
-- `follows`, the places of the messages that are behind the one before them, or nothing.
local function receive_rows(hash, zset, due, most, room, now, dead, expires, limited)
  local of = {hash = hash, zset = zset, dead = dead, expires = expires, limited = limited, due = due}
  local last, is_full, taken, follows = due.told[2 * due.number - 1], true, {}, {}
  extend_groups(of, most, room, now)
  for _, each in ipairs(of.due.taken) do
    taken[each.id] = true
  end
  for each = 1, of.due.number do
    local id = of.due.told[2 * each - 1]
    is_full = is_full and id ~= last
    follows[#follows + 1] = taken[id] and each or nil
  end
  return {due = of.due, is_full = is_full or of.due.number == most, follows = follows[1] and follows or nil,
    begin = function() begin_extension(of) end, finish = function(time) end_extension(of, time) end}
end
