-- The receipts of a lease: parts of batches, each {now ms, {id ...}, {place, receive count, first-received
-- ms, place ...} of those that were received before; all others were received once, now}.

-- The receipts of a part: their ids, and the receive count of each as it is stored. Nil if there is none.
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

-- Of the ids those that are still held, by their receive counts; the places among all of them, and how
-- many others are in the queue all the same: received by somebody else.
local function still_held(hash, zset, ids, counts)
  redis.call('ZSCORE', zset, '') -- a user who may not fails here, before anything is changed
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
