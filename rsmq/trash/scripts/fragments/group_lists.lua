-- Those keys beside a queue that are sorted sets, not hashes: the messages of groups, and what is used of limits.

-- Returns whether a key is a sorted set, or is not there.
local function is_sorted_set(key)
  return type(redis.pcall('ZCARD', key)) == 'number'
end
