-- Takes permits for calls, from a limit of so many in a period for each of several keys.
--
-- KEYS[1...] rates   hash     for each key the ms until which its permits are used, as 'until'; it expires then
-- ARGV[1] limit      integer  permits of a period
-- ARGV[2] period     integer  ms
-- ARGV[3...] wanted  integer  for each key the number of permits
--
-- returns for each key how many permits it gets, and after how many ms the next one is free; 0 if it gets all
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
  local used_until = math.max(tonumber(redis.call('HGET', rate, 'until') or 0), now)
  used_until = math.min(used_until, now + period) -- the limit may have become shorter
  local allowed = math.floor((now + period - used_until) / interval + 0.001)
  allowed = math.max(math.min(allowed, number), 0)
  local free_in = 0
  if allowed > 0 then
    used_until = used_until + allowed * interval
    redis.call('HSET', rate, 'until', string.format('%.3f', used_until))
    keep_for(rate, digits(math.ceil(used_until - now) + 1))
  end
  if allowed < number then
    free_in = math.max(math.ceil(used_until + interval - period - now), 1)
  end
  answer[2 * at - 1], answer[2 * at] = allowed, free_in
end
return answer
