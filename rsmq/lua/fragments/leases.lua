-- The receipts of a lease, in parts of batches. Each part is {now ms, {id ...}, {index, receive
-- count, first-received ms, index ...} of messages that were received before}; all others were
-- received once, now.

-- Returns the receipts of a part: the ids, and the receive count of each as it is stored. Nil if
-- there is no part.
local function receipts_of(leases, part)
  local packed = redis.call('HGET', leases, part)
  if not packed then
    return
  end
  local kept = cmsgpack.unpack(packed)
  local ids, again, counts = kept[2], kept[3], {}
  for each = 1, #ids do
    counts[each] = '1'
  end
  for each = 1, #again, 3 do
    counts[again[each]] = string.format('%.0f', again[each + 1])
  end
  return ids, counts, packed
end

-- Returns the ids whose receipts are still valid, their indexes, and how many of the other ids are
-- in the queue: another consumer has received them.
local function still_held(hash, zset, ids, counts)
  redis.call('ZSCORE', zset, '') -- fails here if the user lacks the right, before any change
  local names, held, places, lost = {}, {}, {}, 0
  for each = 1, #ids do
    names[each] = ids[each] .. ':rc'
  end
  local stored = values_of('HMGET', hash, names)
  for each = 1, #ids do
    if stored[each] == counts[each] then
      held[#held + 1], places[#places + 1] = ids[each], each
    elseif redis.call('ZSCORE', zset, ids[each]) then
      lost = lost + 1
    end
  end
  return held, places, lost
end
