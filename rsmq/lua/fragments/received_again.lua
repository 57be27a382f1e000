-- Messages that nobody deletes in time.
-- @include unbegun.lua
-- @include retrying.lua

-- Returns id and receive count of a message in flight that was received again and again, else nil and 0: of the next
-- ten that become visible the one that was received most often. Its last receives before the present one, at least
-- two, ended without a delete, a retry or a release.
local function received_again(hash, zset, now)
  local hidden = redis.call('ZRANGEBYSCORE', zset, '(' .. now, '+inf', 'LIMIT', '0', '10')
  local fields, ids, counts = {}, {}, {}
  for each = 1, #hidden do
    fields[each] = hidden[each] .. ':rc'
  end
  for each, count in ipairs(#hidden > 0 and redis.call('HMGET', hash, unpack(fields)) or {}) do
    if count and (tonumber(count) or 0) > 2 then
      ids[#ids + 1], counts[#counts + 1] = hidden[each], tonumber(count)
    end
  end
  local found, most = nil, 0
  if #ids > 0 then
    local unbegun, failed = unbegun_receives(zset, hash, ids), failed_receives(zset, hash, ids)
    for each = 1, #ids do
      local lost = counts[each] - 1 - math.max(unbegun[each], failed[each])
      if lost > 1 and counts[each] > most then
        found, most = ids[each], counts[each]
      end
    end
  end
  return found, most
end
