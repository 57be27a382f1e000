-- What a worker holds: a hash of message ids, each with receive count and queue as 'count:queue', and
-- under '' who has the worker's name now.

-- Notes of messages what they are held by no more; `told` has a digit of each, as in _receipts.lua.
-- Those that were received again since may be held again, by this worker or by a successor.
local function forget_held(held, ids, values, told)
  local gone = {}
  for each = 1, #ids do
    if told[each] ~= '2' or redis.call('HGET', held, ids[each]) == values[each] then
      gone[#gone + 1] = ids[each]
    end
  end
  variadic('HDEL', held, gone)
end

-- Notes messages that are delivered, as _due_many.lua has them.
local function hold(held, due, name)
  local members, once = {}, '1:' .. name
  for each = 1, due.number do
    members[2 * each - 1], members[2 * each] = due.told[2 * each - 1], once
  end
  for each = 1, #due.again, 3 do
    members[2 * due.again[each]] = digits(due.again[each + 1]) .. ':' .. name
  end
  variadic('HSET', held, members)
end
