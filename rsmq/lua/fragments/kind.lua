-- What kind of value a key has.

-- As TYPE names it: 'none', 'string', 'hash', 'set', 'zset', 'list', 'stream'.
local function kind_of(key)
  local kind = redis.call('TYPE', key)
  return kind.ok or kind
end
