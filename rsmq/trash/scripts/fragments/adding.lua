-- The steps by which messages are added to a deletion.
-- @include copying.lua
-- @include trash.lua

-- Returns the refusal of a deletion that was undone meanwhile, or that can't be undone any more; nothing if messages
-- can be added.
local function not_open(deletion, now)
  if deletion.state ~= 'kept' then
    return redis.error_reply('CANNOTUNDO undone')
  end
  return deletion.ms + undo_ms() <= now and redis.error_reply('CANNOTUNDO over') or nil
end

-- Fails if the user lacks a right, before any change. The pairs of keys of these functions begin at 2.
local function begin_adding(trash, keys, deletion, now)
  redis.call('HDEL', trash, '')
  for pair = 2, #keys, 2 do
    redis.call('PTTL', keys[pair])
    redis.call('PEXPIRE', keys[pair + 1], digits(deletion.ms + life_ms() - now))
  end
end

-- Copies what is stored of messages beside the queue, and sets the names of the keys that are kept.
local function add_facts(keys, deletion, names, ids, now)
  local kept = {}
  for number, name in ipairs(names_in(names)) do
    local live, copy = keys[2 * number], keys[2 * number + 1]
    local left = -1
    if number > 2 then -- the first two are the hash and the sorted set
      copy_facts(live, copy, ids)
      left = redis.call('PTTL', live)
    end
    if redis.call('EXISTS', copy) == 1 then
      redis.call('PEXPIRE', copy, digits(deletion.ms + life_ms() - now))
      local ms = own_expiry(deletion, name) or left >= 0 and digits(now + left) or ''
      kept[#kept + 1] = name .. '=' .. ms .. ','
    end
  end
  deletion.names = table.concat(kept)
end
