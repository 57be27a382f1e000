-- Reads the figures of the tasks of queues.
--
-- KEYS[1...] queues   keys     of each queue: its hash, its figures since the first call; with steps those of times
-- ARGV[1] prefix      string   of the fields of the steps that are read
-- ARGV[2] steps       integer  their number; 0 reads the figures since the first call only
--
-- returns {now, Unix minutes; for each queue {created or false, of each task its name, its record, its steps}}
-- errors  none
-- source  none in Node
-- @include queue.lua
-- @include time_ms.lua
-- @include digits.lua

local queues = KEYS
local prefix, steps = ARGV[1], ARGV[2]

local reply = {digits(math.floor(server_time_ms() / 60000))}
for at = 1, #queues, steps == '0' and 2 or 3 do
  local found = queue(queues[at], 'created')
  local tasks = {found and found[4] or false}
  local totals = found and redis.call('HGETALL', queues[at + 1]) or {}
  for task = 1, #totals, 2 do
    local fields = {}
    for slot = 1, tonumber(steps) do
      fields[slot] = prefix .. digits(slot - 1) .. ':' .. totals[task]
    end
    tasks[#tasks + 1], tasks[#tasks + 2] = totals[task], totals[task + 1]
    tasks[#tasks + 1] = #fields > 0 and redis.call('HMGET', queues[at + 2], unpack(fields)) or {}
  end
  reply[#reply + 1] = tasks
end
return reply
