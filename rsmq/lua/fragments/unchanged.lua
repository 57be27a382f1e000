-- Messages as someone has read them, in rows of id, receive count and score: the count is '0' if the message was never
-- received; an empty count or score may be any.

-- Returns whether the message of the row from index `at` on is in the queue, as it was.
local function is_unchanged(hash, zset, rows, at)
  local id, count, score = rows[at], rows[at + 1], rows[at + 2]
  local stored = redis.call('ZSCORE', zset, id)
  if not stored or score ~= '' and score ~= stored then
    return false
  end
  return count == '' or (redis.call('HGET', hash, id .. ':rc') or '0') == count
end
