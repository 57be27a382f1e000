-- The errors of messages that a worker hides until their next attempt, as retrying.lua reads them.
-- @include unbegun.lua
-- @include variadic.lua

-- Stores {id, value, id ...} of messages of one receive count after an action of settle_messages.lua: the errors of
-- retry as store_records does, or the numbers of others. A user may lack the right; then messages that wait for a
-- retry count as in flight. The script has called require_local_records.
local function record_values(zset, hash, action, records, count)
  for each = 1, action == 'defer' and #records or 0, 2 do -- it is hidden, and not in flight
    redis.pcall('ZREM', zset .. ':x:running', records[each])
  end
  if action ~= 'retry' then
    return record_unbegun(zset, hash, records)
  end
  for each = 2, #records, 2 do
    records[each] = count .. ':' .. records[each]
  end
  if #records > 0 then
    pcall(store_records, zset .. ':x:retrying', zset, hash, records)
  end
end

-- Deletes the errors of messages of one receive count that leave the queue. One that stays is void, and expires.
local function forget_errors(zset, ids, count)
  if count ~= '1' then -- else no handler has failed
    pcall(variadic, 'HDEL', zset .. ':x:retrying', ids)
  end
end
