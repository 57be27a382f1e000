-- Returns how many messages of some queues are hidden by receives since some time, and how often the
-- one of them was received that was received most often. Needs no rights that a receive does not need.
--
-- KEYS[1...] queues  hash and sorted set  of each queue: its hash, then its sorted set of ids
-- ARGV[1] vt   integer  ms for which the receives hide messages; '' = each queue's vt
-- ARGV[2] age  integer  ms since the first of the receives
--
-- returns {highest receive count or 0, messages: at most 1,000 of each queue}; a queue that can't be
--         read has none
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include attributes.lua

local queues = KEYS
local vt, age = ARGV[1], ARGV[2]

local function received_counts(hash, zset)
  local stored = queue(hash)
  local hidden = stored and (vt ~= '' and tonumber(vt) or stored_ms(stored[1]))
  if not hidden then
    return {}
  end
  local now = server_time_ms()
  local from = '(' .. digits(math.max(now, now - age + hidden))
  local ids = redis.call('ZRANGEBYSCORE', zset, from, digits(now + hidden), 'LIMIT', '0', '1000')
  for at = 1, #ids do
    ids[at] = ids[at] .. ':rc'
  end
  return #ids > 0 and redis.call('HMGET', hash, unpack(ids)) or {}
end

local highest, number = 0, 0
for at = 1, #queues, 2 do
  local has_read, counts = pcall(received_counts, queues[at], queues[at + 1])
  for each = 1, has_read and #counts or 0 do
    local count = tonumber(counts[each] or 0) or 0
    if count > 0 then
      highest, number = math.max(highest, count), number + 1
    end
  end
end
return {highest, number}
