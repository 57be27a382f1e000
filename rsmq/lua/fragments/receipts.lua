-- Many messages, in groups: of each their number, the receive count of all ('' = in any case), and
-- the ids, each with what else is given. Id and receive count are a receipt: every receive, by any
-- client, changes the count.

-- Of the group that stands in `given` from `at` on, the ids that may be acted on, where the next group
-- stands, and the places of the ids. An id takes `stride` places. `test` is ZSCORE, or ZREM to remove
-- them at once. Adds to `told` for each message: 1 it may, 0 it is not in the queue, 2 it was received
-- again since.
local function fitting(hash, zset, given, at, stride, test, told)
  redis.call('ZSCORE', zset, '') -- a user who may not fails here, before anything is changed
  local number, count, before = tonumber(given[at]), given[at + 1], #told
  local last = at + 1 + number * stride
  local names, counts = {}, nil
  if count ~= '' then
    for place = at + 2, last, stride do
      names[#names + 1] = given[place] .. ':rc'
    end
    counts = values_of('HMGET', hash, names)
  end
  local ids, places, each, fit = {}, {}, 0, 0
  for place = at + 2, last, stride do
    local id = given[place]
    each = each + 1
    if counts and counts[each] ~= count then
      told[before + each] = redis.call('ZSCORE', zset, id) and '2' or '0'
    else
      local found = redis.call(test, zset, id)
      if found and found ~= 0 then
        fit = fit + 1
        told[before + each], ids[fit], places[fit] = '1', id, place
      else
        told[before + each] = '0'
      end
    end
  end
  return ids, last + 1, places
end
