-- The receipts of a stream: parts of batches, each {ms of the receive, {id ...}, {place, receive count,
-- first-received ms, place ...} of the messages that were received before, {place ...} of those that are behind the one
-- before them in their group; may be missing}. All other messages of the part were received for the first time.
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

-- Returns those leased ids that are not behind a message of their group that is not leased, and the number of the others:
-- they are given up together. A receipt that is not valid never is again, so a later call leaves out at least as many.
local function with_their_groups(ids, leased, packed)
  local follows = #leased < #ids and cmsgpack.unpack(packed)[4]
  if not follows then
    return leased, 0
  end
  local is_leased, kept = {}, {}
  for _, id in ipairs(leased) do
    is_leased[id] = true
  end
  for _, place in ipairs(follows) do
    is_leased[ids[place]] = is_leased[ids[place - 1]] and is_leased[ids[place]]
  end
  for _, id in ipairs(leased) do
    kept[#kept + 1] = is_leased[id] and id or nil
  end
  return kept, #leased - #kept
end
