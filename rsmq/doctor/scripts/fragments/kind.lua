-- The type of a key's value.

-- Returns the type as TYPE names it: 'none', 'string', 'hash', 'set', 'zset', 'list', 'stream'.
local function kind_of(key)
  local kind = redis.call('TYPE', key)
  return kind.ok or kind
end
