-- Messages that no consumer deletes in time.
-- @include digits.lua
-- @include unbegun.lua
-- @include retrying.lua

-- Returns the ms at which one of these messages was received first, and the last ms at which any of them was; nil for what
-- is not stored as a number.
local function first_receives(hash, ids, found)
  local fields, first, last = {}, nil, 0
  for each = 1, #ids do
    fields[each] = ids[each] .. ':fr'
  end
  for each, time in ipairs(#ids > 0 and redis.call('HMGET', hash, unpack(fields)) or {}) do
    local ms = time and tonumber(time)
    if ids[each] == found then
      first = ms and time
    end
    last = ms and last and math.max(last, ms)
  end
  return first, last and last > 0 and digits(last) or nil
end

-- Returns whether the attributes of a queue were changed so lately that its receives may be of the time before, as
-- settling_end_ms in explain/observed.py has it.
local function is_changed_lately(vt, modified, now)
  local seconds = tonumber(modified)
  return seconds and tonumber(now) / 1000 - seconds < math.max(2 * (tonumber(vt) or 0), 60)
end

-- Looks at the next ten messages that become visible, and at their last receives before the present one that ended
-- without a delete or a recorded retry. Returns id, receive count and number of such receives of the one that had most
-- of them, at least two, else nil, 0 and 0; how many had at least one; how many were received; the ms at which that
-- one was received first, or nil; and the last ms at which one of those that had at least one was received first, or nil:
-- this one only if the attributes of the queue, of which vt and modified are passed as stored, were changed lately.
-- A consumer may have released them: only workers record that.
local function received_again(hash, zset, now, vt, modified)
  local hidden = redis.call('ZRANGEBYSCORE', zset, '(' .. now, '+inf', 'LIMIT', '0', '10')
  local fields, ids, counts, received = {}, {}, {}, 0
  for each = 1, #hidden do
    fields[each] = hidden[each] .. ':rc'
  end
  for each, count in ipairs(#hidden > 0 and redis.call('HMGET', hash, unpack(fields)) or {}) do
    received = received + (count and 1 or 0)
    if count and (tonumber(count) or 0) > 1 then
      ids[#ids + 1], counts[#counts + 1] = hidden[each], tonumber(count)
    end
  end
  local found, receives, most, repeated, again = nil, 0, 1, 0, {}
  if #ids > 0 then
    local unbegun, failed = unbegun_receives(zset, hash, ids), failed_receives(zset, hash, ids)
    for each = 1, #ids do
      local lost = counts[each] - 1 - math.max(unbegun[each], failed[each])
      if lost > 0 then
        repeated = repeated + 1
        again[repeated] = ids[each]
      end
      if lost > most or lost == most and found and counts[each] > receives then
        found, receives, most = ids[each], counts[each], lost
      end
    end
  end
  local first, last = nil, nil
  if is_changed_lately(vt, modified, now) then
    first, last = first_receives(hash, again, found)
  elseif found then
    first = redis.call('HGET', hash, found .. ':fr')
  end
  return found, receives, found and most or 0, repeated, received, first, last
end
