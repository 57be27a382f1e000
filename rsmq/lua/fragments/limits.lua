-- The limits that messages were sent with. A hash beside the queue: by message id 'retries:ms of the expiry', each
-- empty if there is no such limit. A record counts only while the message's body is in the queue.
-- @include local_keys.lua

-- Returns whether messages may have limits of their own. The field x:limited says what receives have to look for: 1 these, 2
-- ordered groups of which several messages are admitted, 3 both. One field, so that receives read no other for the groups.
local function has_limits(limited)
  return limited and limited ~= '2'
end

-- Returns a message's own number of retries and the ms of its expiry, each nil if it has none. A user may lack the
-- right to the hash; then the message has no limits. It fails if the hash is on another node of a cluster.
local function limits_of(zset, id)
  local record = redis.pcall('HGET', zset .. ':x:limits', id)
  if type(record) ~= 'string' then
    require_local_beside(zset, ':x:limits')
    return
  end
  local retries, ends = string.match(record, '^(%d*):(%d*)$')
  return tonumber(retries), tonumber(ends)
end

-- Returns {place, number of retries, place ...} of those messages that have a number of their own. The arguments are
-- the field x:limited as stored, and {id, body, id ...}.
local function own_retries(zset, limited, told)
  local found = {}
  for at = 1, has_limits(limited) and #told or 0, 2 do
    local retries = limits_of(zset, told[at])
    if retries then
      found[#found + 1], found[#found + 2] = (at + 1) / 2, retries
    end
  end
  return found
end

-- Fails if the limits of a queue with x:limited are on another node of a cluster.
local function require_local_limits(zset, limited)
  if has_limits(limited) then
    require_local_beside(zset, ':x:limits')
  end
end

-- Removes the record of a message that returns to the queue with its old id, or that is replaced. The script has
-- called require_local_limits.
local function forget_limits(zset, id)
  redis.pcall('HDEL', zset .. ':x:limits', id)
end
