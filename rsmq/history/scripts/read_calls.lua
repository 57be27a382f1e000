-- Reads the figures of the tasks of queues.
--
-- KEYS[1...] queues   keys     of each queue: its hash, its figures since the first call; with steps those of times
-- ARGV[1] last        integer  the last byte of the figures since the first call that is read of a task; -1 reads all
-- ARGV[2...] steps    strings  prefixes of the fields of the steps that are read; none reads no steps
--
-- returns {now, Unix minutes; for each queue {created or false, of each task its name, its record, its stored steps}}
-- errors  none
-- source  none in Node
-- @include queue.lua
-- @include time_ms.lua
-- @include digits.lua

local queues = KEYS
local last = ARGV[1]
local steps = ARGV

local reply = {digits(math.floor(server_time_ms() / 60000))}
for at = 1, #queues, #steps == 1 and 2 or 3 do
  local found = queue(queues[at], 'created')
  local tasks = {found and found[4] or false}
  local totals = found and redis.call('HGETALL', queues[at + 1]) or {}
  for task = 1, #totals, 2 do
    local fields, stored = {}, {}
    for step = 2, #steps do
      fields[step - 1] = steps[step] .. totals[task]
    end
    for _, record in ipairs(#fields > 0 and redis.call('HMGET', queues[at + 2], unpack(fields)) or {}) do
      stored[#stored + 1] = record or nil
    end
    tasks[#tasks + 1], tasks[#tasks + 2] = totals[task], string.sub(totals[task + 1], 1, last)
    tasks[#tasks + 1] = stored
  end
  reply[#reply + 1] = tasks
end
return reply
