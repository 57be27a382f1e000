-- Returns what the rates of several queues follow from. Nothing is changed.
--
-- KEYS[1...] queues  keys  of each queue: its hash, its history
--
-- returns {ms now, for each queue {totals of sends and of receives, time of creation, state of the history, the last 80
--         bytes of its minutes}}; nil for what there is not, and for a queue that can't be read
-- errors  none
-- source  none in Node
-- @include digits.lua
-- @include time_ms.lua

local queues = KEYS

local now = server_time_ms()
local hour = math.floor(now / 3600000)
local first, second = 'm' .. digits(hour - 1), 'm' .. digits(hour)

local function read(hash, history)
  local totals = redis.call('HMGET', hash, 'totalsent', 'totalrecv', 'created')
  local stored = redis.call('HMGET', history, 'state', second)
  local minutes = stored[2] or redis.call('HGET', history, first)
  return {totals[1], totals[2], totals[3], stored[1], minutes and string.sub(minutes, -80)}
end

local found = {digits(now)}
for at = 1, #queues, 2 do
  local has_read, each = pcall(read, queues[at], queues[at + 1])
  found[#found + 1] = has_read and each
end
return found
