-- Renames the keys of a queue, so that they can be restored. Constant time.
-- @include trash.lua

-- Returns the ms until each key expires, in order of the pairs from index `at` on: -1 = never, -2 = no such key. Fails,
-- before any change, if the user lacks a right; returns nil and a refusal if keys can't be renamed.
local function lives_of(keys, at, trash)
  local lives = {}
  redis.call('HDEL', trash, '')
  for pair = at, #keys, 2 do
    local live, kept = keys[pair], keys[pair + 1]
    lives[#lives + 1] = redis.call('PTTL', live)
    redis.call('PEXPIRE', kept, '1') -- there is none
    -- Changes nothing: a key has its own name already.
    if lives[#lives] ~= -2 and type(redis.pcall('RENAMENX', live, live)) == 'table' then
      return nil, redis.error_reply('TRASHOFF rename')
    end
  end
  return lives
end

-- Returns the names of the keys that exist, as a deletion has them.
local function names_of(lives, names, now)
  local kept = {}
  for number, name in ipairs(names_in(names)) do
    local left = lives[number]
    if left ~= -2 then
      kept[#kept + 1] = name .. '=' .. (left >= 0 and digits(now + left) or '') .. ','
    end
  end
  return table.concat(kept)
end

-- Renames the first key of each pair to the second.
local function keep_keys(keys, at, lives)
  for number, left in ipairs(lives) do
    local pair = at + 2 * (number - 1)
    if left ~= -2 then
      redis.call('RENAMENX', keys[pair], keys[pair + 1])
      redis.call('PEXPIRE', keys[pair + 1], digits(left >= 0 and math.min(left, life_ms()) or life_ms()))
    end
  end
end
