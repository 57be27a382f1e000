-- Many messages, in groups: of each their number, the receive count of all ('' = in any case), and
-- the ids, each with what else is given. Id and count are a receipt, as in _receipt.lua.

-- Of the group that stands in `given` from `at` on, the places of the ids that may be acted on, and
-- where the next group stands. An id takes `stride` places. `test` is ZSCORE, or ZREM to remove them
-- at once. Adds to `told` for each message: 1 it may, 0 it is not in the queue, 2 it was received
-- again since.
local function fitting(hash, zset, given, at, stride, test, told)
  local number, count, first = tonumber(given[at]), given[at + 1], at + 2
  local next_group = first + number * stride
  local counts, before = nil, #told
  if count ~= '' then
    local names = {}
    for each = 1, number do
      names[each] = given[first + (each - 1) * stride] .. ':rc'
    end
    counts = values_of('HMGET', hash, names)
  end
  local places, fit = {}, 0
  for each = 1, number do
    local place = first + (each - 1) * stride
    if counts and counts[each] ~= count then
      told[before + each] = redis.call('ZSCORE', zset, given[place]) and '2' or '0'
    else
      local found = redis.call(test, zset, given[place])
      if found and found ~= 0 then
        fit = fit + 1
        told[before + each], places[fit] = '1', place
      else
        told[before + each] = '0'
      end
    end
  end
  return places, next_group
end
