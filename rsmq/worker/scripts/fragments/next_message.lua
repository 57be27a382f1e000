-- The message that is sent when another one has been handled.
-- @include digits.lua
-- @include id.lua
-- @include sending.lua
-- @include totals.lua

-- Sends it, unless it follows a map of which other messages are unfinished; or adds nodes to a flow. Three keys from a
-- place on are its queue's and the record of the map, or the flow; five arguments from a place on are those of
-- finish_messages.lua, after the id. Returns why it is refused; nothing if it is not. It is refused, or an error raised,
-- before any change.
local function send_next(keys, key_at, arguments, at, us, lifetime)
  local adding = string.match(arguments[at], '^%+(%d+)$')
  if adding then
    -- @include added_nodes.lua
    return add_nodes(keys[key_at + 2], adding, arguments[at - 1], arguments[at + 1])
  end
  local to_hash, to_zset, map = keys[key_at], keys[key_at + 1], keys[key_at + 2]
  local number, body, size = arguments[at], arguments[at + 1], arguments[at + 2]
  local suffix, channel = arguments[at + 3], arguments[at + 4]
  local is_of_map, now = number ~= '', math.floor(us / 1000)
  if is_of_map then
    if redis.call('HEXISTS', map, number) == 0 then -- it was counted before, or the record has expired
      return
    elseif redis.call('HLEN', map) > 2 then
      redis.call('HDEL', map, number)
      redis.call('PEXPIRE', map, lifetime)
      return
    end
    size, body = string.match(redis.call('HGET', map, 'then') or '', '^(%d+):(.*)$')
  end
  local stored, wait = sendable(to_hash, size, '', now)
  if not stored then
    return wait
  end
  redis.call('ZADD', to_zset, 'XX', '0', '\0none') -- these fail without the right, or on a key of another type
  if is_of_map then
    redis.call('HDEL', map, '')
  end
  if channel ~= '' then
    redis.call('PUBLISH', channel, redis.call('ZCARD', to_zset) + 1)
  end
  local id = base36(us) .. suffix
  add_to(to_hash, 'totalsent', 1)
  redis.call('HSET', to_hash, id, body)
  redis.call('ZADD', to_zset, digits(now + wait), id)
  if is_of_map then
    redis.call('HDEL', map, number, 'then')
  end
end
