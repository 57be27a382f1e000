-- Copies of messages, and of what is stored of them beside their queue.
-- @include due.lua
-- @include variadic.lua

-- Returns {field, value, field ...} of the bodies and counters of some of the messages, so many that their bytes fill
-- the room; {score, id, score ...}; and the ids. The messages are those of rows of three from index `at` on, whose
-- answer is 1. Also returns how many rows were looked at.
local function read_messages(hash, zset, rows, at, answers, room)
  local fields, members, ids, looked = {}, {}, {}, 0
  while looked < #answers and (room > 0 or looked == 0) do
    looked = looked + 1
    if answers[looked] == 1 then
      local id = rows[at + 3 * (looked - 1)]
      ids[#ids + 1] = id
      members[#members + 1], members[#members + 2] = redis.call('ZSCORE', zset, id), id
      local names = fields_of({id})
      local values = #names > 0 and redis.call('HMGET', hash, unpack(names)) or {}
      for each, name in ipairs(names) do
        if values[each] then
          fields[#fields + 1], fields[#fields + 2] = name, values[each]
          room = room - #values[each]
        end
      end
    end
  end
  return fields, members, ids, looked
end

-- Copies the fields of messages from one hash to another that are not there, with that of the empty name: the queue
-- that they are of, without which they are void.
local function copy_facts(from, to, ids)
  local values = #ids > 0 and redis.call('EXISTS', from) == 1 and values_of('HMGET', from, ids) or {}
  local is_any = false
  for at = 1, #values do
    if values[at] then
      redis.call('HSETNX', to, ids[at], values[at])
      is_any = true
    end
  end
  local of = is_any and redis.call('HGET', from, '')
  if of then
    redis.call('HSETNX', to, '', of)
  end
end
