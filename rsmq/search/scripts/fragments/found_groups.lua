-- Groups and limit keys by their names: the members of x:admitted and x:held_back are the group, a zero byte and the id.

-- Adds the first message of a group that is in the queue, if there is one.
local function find_group(found, kind, group, admitted, held_back, zset)
  for _, key in ipairs({admitted, held_back}) do
    for _, member in ipairs(redis.call('ZRANGEBYLEX', key, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', '0', '5')) do
      local id = string.sub(member, #group + 2)
      if redis.call('ZSCORE', zset, id) then
        found[#found + 1], found[#found + 2] = kind, id
        return true
      end
    end
  end
end

-- Adds the same of a limit key, and returns whether it is there. Its group begins with the byte 1 and how many of its
-- messages may run, of which a queue has few: at most 20 of these numbers are looked at.
local function find_limit_key(found, name, admitted, held_back, zset)
  for _, key in ipairs({admitted, held_back}) do
    local from = '[\1'
    for _ = 1, 20 do
      local member = redis.call('ZRANGEBYLEX', key, from, '(\2', 'LIMIT', '0', '1')[1]
      local number = member and string.match(member, '^\1(%d+):')
      if not number then
        break
      end
      if find_group(found, 'limit_key', '\1' .. number .. ':' .. name, admitted, held_back, zset) then
        return true
      end
      from = '[\1' .. number .. ';'
    end
  end
end
