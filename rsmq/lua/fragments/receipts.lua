-- Many messages, in groups. Each group has the number of its messages, the receive count of all of
-- them ('' = any count), and the ids, each followed by its other values. Id and receive count are a
-- receipt: every receive, by any client, changes the count.
-- @include variadic.lua

-- Returns, for the group in `arguments` from index `at` on: the ids whose receipts are valid, the index
-- of the next group, and the indexes of the ids. An id and its values take `stride` indexes. `test`
-- is ZSCORE, or ZREM to remove the ids at once. Adds to `answers` for each message: 1 if the receipt
-- is valid, 0 if it is not in the queue, 2 if it was received again since.
local function fitting(hash, zset, arguments, at, stride, test, answers)
  redis.call('ZSCORE', zset, '') -- fails here if the user lacks the right, before any change
  local number, count, before = tonumber(arguments[at]), arguments[at + 1], #answers
  local last = at + 1 + number * stride
  local names, counts = {}, nil
  if count ~= '' then
    for place = at + 2, last, stride do
      names[#names + 1] = arguments[place] .. ':rc'
    end
    counts = values_of('HMGET', hash, names)
  end
  local ids, places, each, fit = {}, {}, 0, 0
  for place = at + 2, last, stride do
    local id = arguments[place]
    each = each + 1
    if counts and counts[each] ~= count then
      answers[before + each] = redis.call('ZSCORE', zset, id) and '2' or '0'
    else
      local found = redis.call(test, zset, id)
      if found and found ~= 0 then
        fit = fit + 1
        answers[before + each], ids[fit], places[fit] = '1', id, place
      else
        answers[before + each] = '0'
      end
    end
  end
  return ids, last + 1, places
end
