-- The receipts of a lease: parts of batches, each {ms of the receive, {id ...}, {place, receive count,
-- first-received ms, place ...} of the messages that were received before}. All other messages of the part were
-- received for the first time.
-- @include variadic.lua

-- Returns the ids of a part, the receive count of each as Redis stores it, and the packed receipts; nil if the
-- part does not exist.
local function receipts_of(leases, part)
  local packed = redis.call('HGET', leases, part)
  if not packed then
    return
  end
  local receipts = cmsgpack.unpack(packed)
  local ids, again, counts = receipts[2], receipts[3], {}
  for each = 1, #ids do
    counts[each] = '1'
  end
  for each = 1, #again, 3 do
    counts[again[each]] = string.format('%.0f', again[each + 1])
  end
  return ids, counts, packed
end

-- Returns the ids whose receive counts are unchanged, and the number of other ids that are still in the queue:
-- another consumer has received those messages.
local function still_leased(hash, zset, ids, counts)
  redis.call('ZSCORE', zset, '') -- fails for a user without the right, before anything is changed
  local names, leased, lost = {}, {}, 0
  for each = 1, #ids do
    names[each] = ids[each] .. ':rc'
  end
  local stored = values_of('HMGET', hash, names)
  for each = 1, #ids do
    if stored[each] == counts[each] then
      leased[#leased + 1] = ids[each]
    elseif redis.call('ZSCORE', zset, ids[each]) then
      lost = lost + 1
    end
  end
  return leased, lost
end
