-- Many receipts of one queue: id and receive count of each, as in _receipt.lua.

-- Of `number` messages, whose id and count stand in `given` from `at` on, `stride` values each,
-- the places of those that may be acted on. Adds to `told` for each message: 1 it may, 0 it is not
-- in the queue, 2 it was received again since.
local function fitting(hash, zset, given, at, number, stride, told)
  local ids, names, places = {}, {}, {}
  for each = 1, number do
    ids[each] = given[at + (each - 1) * stride]
    names[each] = ids[each] .. ':rc'
  end
  local counts = values_of('HMGET', hash, names)
  local scores = values_of('ZMSCORE', zset, ids)
  for each = 1, number do
    local count = given[at + (each - 1) * stride + 1]
    if not scores[each] then
      told[#told + 1] = '0'
    elseif count ~= '' and counts[each] ~= count then
      told[#told + 1] = '2'
    else
      told[#told + 1] = '1'
      places[#places + 1] = at + (each - 1) * stride
    end
  end
  return places
end
