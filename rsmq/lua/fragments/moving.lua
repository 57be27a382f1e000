-- Records of messages beside their queue that go along to another queue: by the end of their key, as they are stored.
-- @include moved_keys.lua

-- Returns the records of a message. A user may lack the right to a key; then the message has no record in it.
local function records_to_move(zset, id)
  local records = {}
  for _, name in ipairs(moved_keys()) do
    if name ~= ':x:group_of' or string.sub(id, -2) == 'Gr' then
      local record = redis.pcall('HGET', zset .. name, id)
      records[name] = type(record) == 'string' and record or nil
    end
  end
  return records
end

-- Stores records of a message beside another queue. A user may lack the right. Also removes records of messages that are
-- gone.
local function store_moved(zset, id, records)
  for _, name in ipairs(moved_keys()) do
    if records[name] then
      local key = zset .. name
      redis.pcall('HSET', key, id, records[name])
      local found = redis.pcall('HRANDFIELD', key, 2, 'WITHVALUES')
      for at = 1, found and #found or 0, 2 do
        if found[at] ~= id and not redis.call('ZSCORE', zset, found[at]) then
          if name == ':x:group_of' then
            local member = (string.match(found[at + 1], '^%d+:(.+)$') or '') .. '\0' .. found[at]
            redis.pcall('ZREM', zset .. ':x:admitted', member) -- the user may lack the right
            redis.pcall('ZREM', zset .. ':x:held_back', member)
          end
          redis.call('HDEL', key, found[at])
        end
      end
    end
  end
end
