-- The messages that are due for the handler calls of a worker. A call with several messages takes the next ones of a group
-- too. They are in the same call, so no other call runs a later one beside them.
-- @include digits.lua
-- @include due_many.lua

-- Returns the messages that are due, as due_messages does. `of` has the keys and the rules of the queue: whether it may
-- have groups, its `expires`, `limits` and `limited`. A call has `size` messages, and rows of groups may fill the calls up
-- to `most_in_rows` messages.
local function due_batches(of, now, most, room, first, size, most_in_rows)
  -- A user may lack the right to the lists. Then a call has one of each group.
  local has_rows = of.groups and size > 1 and type(redis.pcall('ZCARD', of.zset .. ':x:admitted')) == 'number'
  of.due = due_messages(of.zset, of.hash, now, most, room, first, nil, of.expires, of.limits, false,
    has_rows or of.limited and of.limited ~= '1')
  if has_rows and of.due.number > 0 then
    -- @include extending.lua
    extend_groups(of, most_in_rows, room, now, size)
    of.begin_extension, of.end_extension = begin_extension, end_extension
  end
  return of.due
end

-- Delivers them, and hides them until the score.
local function deliver_batches(of, now, score)
  local has_rows = of.due.taken and #of.due.taken > 0
  if has_rows then
    of.begin_extension(of)
  end
  deliver(of.hash, of.zset, of.due, digits(now), score)
  if has_rows then
    of.end_extension(of, now)
  end
end
