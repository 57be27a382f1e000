-- Messages whose handler has failed, and that are hidden until their next attempt. A hash beside the queue: by
-- message id 'receive count:error'; under '' and ':' as in unbegun.lua. Each receive makes a record void.
-- @include local_keys.lua

-- Returns for each id, in order, the error if the message waits for its next attempt, else false. `counts` are the
-- receive counts as stored; false = the message is visible, or was never received. At most 4,000 ids. It fails if
-- the hash is on another node of a cluster; if the user lacks the right, no message waits.
local function errors_of(zset, hash, ids, counts)
  local asked, errors = {''}, {}
  for each = 1, #ids do
    errors[each] = false
    if counts[each] then
      asked[#asked + 1] = ids[each]
    end
  end
  local found = #asked > 1 and redis.pcall('HMGET', zset .. ':x:retrying', unpack(asked)) or {}
  if #asked > 1 and not found[1] then
    require_local_beside(zset, ':x:retrying')
  end
  if not found[1] or found[1] ~= (redis.call('HGET', hash, 'created') or '') then
    return errors
  end
  local at = 1
  for each = 1, #ids do
    if counts[each] then
      at = at + 1
      local count, text = string.match(found[at] or '', '^(%d+):(.*)$')
      errors[each] = count == counts[each] and text
    end
  end
  return errors
end

-- Returns for each id the receive count at which its handler failed the last time, also if it was received since. It
-- is 0 without a record, and for all if the user lacks the right.
local function failed_receives(zset, hash, ids)
  local found = redis.pcall('HMGET', zset .. ':x:retrying', '', unpack(ids))
  local is_valid = found[1] and found[1] == (redis.call('HGET', hash, 'created') or '')
  local counts = {}
  for each = 1, #ids do
    local count = is_valid and string.match(found[each + 1] or '', '^(%d+):')
    counts[each] = count and tonumber(count) or 0
  end
  return counts
end
