-- The message that is sent when another one has been handled.
-- @include digits.lua
-- @include id.lua
-- @include sending.lua
-- @include totals.lua
-- @include variadic.lua

-- Sends it, unless it follows a map of which other messages are unfinished; or adds nodes to a flow. Three keys from a
-- place on are its queue's and the record of the map, or the flow; five arguments from a place on are those of
-- finish_messages.lua, after the id. Returns why it is refused; nothing if it is not. It is refused, or an error raised,
-- before any change. The second
-- value is the id of the message, if it was sent.
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
  local finished = {number, 'then'}
  if is_of_map then
    if redis.call('HEXISTS', map, number) == 0 then -- it was counted before, or the record has expired
      return
    end
    local result, found = body, redis.call('HMGET', map, 'then', 'left', 'size')
    size, body = string.match(found[1] or '', '^(%d+):(.*)$')
    if found[2] then
      -- @include map_results.lua
      -- @include utf16.lua
      local of_results = (found[3] or 0) + utf16_size(result) + 1
      size = size + of_results
      if tonumber(found[2]) > 1 then
        return keep_result(map, number, result, size, of_results, to_hash, lifetime)
      end
      body, finished = with_results(map, body, number, result)
    elseif redis.call('HLEN', map) > 2 then
      redis.call('HDEL', map, number)
      redis.call('PEXPIRE', map, lifetime)
      return
    end
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
    variadic('HDEL', map, finished)
  end
  return nil, id
end
