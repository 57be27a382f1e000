-- Adds what a worker has counted of handler calls in a queue to the figures of its tasks.
--
-- KEYS[1] hash        hash     the queue
-- KEYS[2] totals      hash     by task, its figures since its first call
-- KEYS[3] times       hash     its figures of the last minutes, hours, quarters of days, and days
-- ARGV[1] minute      integer  Unix minutes; in which the calls have ended, as the worker believes
-- ARGV[2] limit       integer  bytes of times beyond which records have no distributions
-- ARGV[3...] tasks    strings  of each task: its name, and its record without queue and time
--
-- returns the number of tasks; 0 if there is no such queue
-- errors  none
-- source  none in Node
-- @include queue.lua
-- @include attributes.lua
-- @include time_ms.lua
-- @include digits.lua
-- @include call_records.lua

local hash, totals, times = KEYS[1], KEYS[2], KEYS[3]
local minute, limit = ARGV[1], ARGV[2]
local tasks = ARGV

local found = queue(hash, 'created')
if not found then
  return 0
end
local created = math.floor(math.max(decimal(found[4]) or 0, 0))
local now = math.floor(server_time_ms() / 60000)
minute = math.min(math.max(tonumber(minute), now - 1), now)
local bytes = tonumber(redis.call('HGET', times, 'bytes') or 0) or 0

local levels = levels_of_steps()
for task = 3, #tasks, 2 do
  local added, name = parse_counted(tasks[task + 1])
  name, bytes = name_of_counted(totals, times, tasks[task], created, minute, bytes)
  local fields = {}
  for place, level in ipairs(levels) do
    fields[place] = level[1] .. digits(math.floor(minute / level[2]) % level[3]) .. ':' .. name
  end
  local stored = redis.call('HMGET', times, unpack(fields))
  local has_room, words, records = bytes <= limit + 0, {}, {}
  for place, level in ipairs(levels) do
    records[place] = add_counted(stored[place], created, math.floor(minute / level[2]), added, has_room, false)
    words[#words + 1], words[#words + 2] = fields[place], records[place]
  end
  bytes = bytes + bytes_of_records(records) - bytes_of_records(stored)
  redis.call('HSET', times, 'bytes', digits(bytes), unpack(words))
  redis.call('HSET', totals, name, add_counted(redis.call('HGET', totals, name), created, minute, added, true, true))
end
redis.call('PEXPIRE', totals, '7862400000')
redis.call('PEXPIRE', times, '7862400000')
return #tasks / 2 - 1
