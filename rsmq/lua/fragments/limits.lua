-- The limits that messages were sent with. A hash beside the queue: by message id 'retries:ms of the expiry', each
-- empty if there is no such limit. A record counts only while the message's body is in the queue.
-- @include local_keys.lua

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
