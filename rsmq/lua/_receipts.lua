-- Many receipts of one queue: id and receive count of each, as in _receipt.lua.

-- Of `number` messages, whose id and count stand in `given` from `at` on, `stride` values each,
-- the places of those that may be acted on. Adds to `told` for each message: 1 it may, 0 it is not
-- in the queue, 2 it was received again since.
local function fitting(hash, zset, given, at, number, stride, told)
  local ids, names, places, before = {}, {}, {}, #told
  for each = 1, number do
    local id = given[at + (each - 1) * stride]
    ids[each], names[each] = id, id .. ':rc'
  end
  local counts = values_of('HMGET', hash, names)
  local scores = values_of('ZMSCORE', zset, ids)
  for each = 1, number do
    local place = at + (each - 1) * stride
    local count = given[place + 1]
    if not scores[each] then
      told[before + each] = '0'
    elseif count ~= '' and counts[each] ~= count then
      told[before + each] = '2'
    else
      told[before + each] = '1'
      places[#places + 1] = place
    end
  end
  return places
end
