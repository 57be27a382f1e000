-- Takes permits for calls, from a limit of so many in a period for each of several keys.
--
-- KEYS[1...] rates   hash     for each key the ms until which its permits are used, as 'until', and the last turn that
--                             was given to a message without a permit, as 'turn'; it expires after both
-- ARGV[1] limit      integer  permits of a period
-- ARGV[2] period     integer  ms
-- ARGV[3...] wanted  integer  for each key the number of permits
--
-- returns for each key how many permits it gets, and in how many ms the first of the others has its turn, 0 if there
--         are none; each later one has it an interval later
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include lifetime.lua

local rates = KEYS
local limit, period = ARGV[1], ARGV[2]
local wanted = ARGV

local now, answer, interval = server_time_ms(), {}, period / limit
for at, rate in ipairs(rates) do
  local number = tonumber(wanted[at + 2])
  redis.call('HDEL', rate, '') -- no such field: when memory is full, it allows the next
  local stored = redis.call('HMGET', rate, 'until', 'turn')
  local used_until, turn = tonumber(stored[1] or 0), tonumber(stored[2] or 0)
  -- The permits of these turns stay unused: their messages were deleted, or no worker ran.
  if now + period - used_until > 2 * interval + 10000 then
    turn = 0
  end
  used_until = math.min(math.max(used_until, now), now + period) -- the limit may have become shorter
  turn = math.min(turn, now + 604800000) -- the longest deferral
  local allowed = math.floor((now + period - used_until) / interval + 0.001)
  allowed = math.max(math.min(allowed, number), 0)
  local free_in = 0
  used_until = used_until + allowed * interval
  if allowed < number then
    turn = math.max(turn, used_until - period)
    free_in = math.max(math.ceil(turn + interval - now), 1)
    turn = turn + (number - allowed) * interval
  end
  redis.call('HSET', rate, 'until', string.format('%.3f', used_until), 'turn', string.format('%.3f', turn))
  keep_for(rate, digits(math.ceil(math.max(used_until, turn) - now) + 1))
  answer[2 * at - 1], answer[2 * at] = allowed, free_in
end
return answer
