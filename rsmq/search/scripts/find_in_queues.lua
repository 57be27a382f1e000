-- Finds in queues what has an exact name: a message or job by its id, a unique key, a group, a limit key; and tasks
-- whose names contain a text. Nothing is changed.
--
-- KEYS[1...] queues  keys    of each queue: its hash, its sorted set, x:unique, x:admitted, x:held_back, x:calls,
--                            x:rates, and the record of the job with the id
-- ARGV[1] name       string  the name or id
-- ARGV[2] part       string  a part of a task's name, in small letters
--
-- returns for each queue a list of kinds with the id of a message, or the name of a task or of a key with a rate
-- errors  none
-- source  none in Node
-- @include reserved.lua
-- @include unique.lua
-- @include found_groups.lua

local queues = KEYS
local name, part = ARGV[1], ARGV[2]

local function look(at, found)
  local hash, zset = queues[at], queues[at + 1]
  if redis.call('ZSCORE', zset, name) and redis.call('HEXISTS', hash, name) == 1 and not is_reserved(name) then
    found[#found + 1], found[#found + 2] = 'message', name
  elseif redis.call('EXISTS', queues[at + 7]) == 1 then
    found[#found + 1], found[#found + 2] = 'job', name
  end
  local holder = holder_of(queues[at + 2], name, hash, zset)
  if holder then
    found[#found + 1], found[#found + 2] = 'unique_key', holder
  end
  find_group(found, 'group', name, queues[at + 3], queues[at + 4], zset)
  local has_key = find_limit_key(found, name, queues[at + 3], queues[at + 4], zset)
  if not has_key and redis.call('HEXISTS', hash, 'x:rated') == 1 and redis.call('ZSCORE', queues[at + 6], '\1:' .. name) then
    found[#found + 1], found[#found + 2] = 'rate', name -- no record says which messages are of a key that has only a rate
  end
  for _, task in ipairs(redis.call('HKEYS', queues[at + 5])) do
    if string.find(string.lower(task), part, 1, true) then
      found[#found + 1], found[#found + 2] = 'task', task
    end
  end
end

local reply = {}
for at = 1, #queues, 8 do
  local found = {}
  pcall(look, at, found) -- keys of other types are no queue's
  reply[#reply + 1] = found
end
return reply
