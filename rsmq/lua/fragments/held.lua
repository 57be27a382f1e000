-- What a worker holds: a hash of message ids, each with receive count and queue as 'count:queue', and
-- under '' who has the worker's name now.

-- Of messages those that have this receive count still, and their places. Adds to `told` for each: 1 it
-- has, 0 it is gone, 2 it was received again since.
local function held_still(hash, zset, ids, count, told)
  local names, fit, places = {}, {}, {}
  for each = 1, #ids do
    names[each] = ids[each] .. ':rc'
  end
  local counts = values_of('HMGET', hash, names)
  for each = 1, #ids do
    if counts[each] == count then
      told[each], fit[#fit + 1], places[#places + 1] = '1', ids[each], each
    else
      told[each] = redis.call('ZSCORE', zset, ids[each]) and '2' or '0'
    end
  end
  return fit, places
end

-- Gives scores to those members that are there.
local function score_present(zset, members)
  for at = 1, #members, 4000 do
    redis.call('ZADD', zset, 'XX', unpack(members, at, math.min(at + 3999, #members)))
  end
end

-- Forgets that messages are held, of which `value` was noted; `fit` are those that had their receive
-- count still, so that nothing was noted since. Of the others what was noted since stays: they may be held
-- again, by this worker or by a successor.
local function forget_held(held, ids, value, fit)
  variadic('HDEL', held, fit)
  if #fit == #ids then
    return
  end
  local noted, gone = values_of('HMGET', held, ids), {}
  for each = 1, #ids do
    if noted[each] == value then
      gone[#gone + 1] = ids[each]
    end
  end
  variadic('HDEL', held, gone)
end

-- Forgets how often messages were begun in quarantine: their receipts still fit, and the worker knows how
-- their last run ended. A user may lack the right; then what is kept of them ends with its time to live.
local function end_quarantine(zset, fit)
  pcall(variadic, 'HDEL', zset .. ':x:alone', fit)
end

-- Notes messages that are delivered, as due_many.lua has them.
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
