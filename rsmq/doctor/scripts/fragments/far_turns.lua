-- Turns of rates, as in fragments/rates.lua of the clients, that no message of the queue explains.
-- @include digits.lua
-- @include time_ms.lua

-- Returns the ms behind all messages of the queue, and the least microseconds, excluded, of a turn that none explains. A
-- turn is at most an interval, so a day, behind the last message of its key. The scores of messages that are held back are
-- not their times: with such messages, it returns only the turns that no send by a right clock can have stored.
local function far_turns_from(zset, held_back)
  local now = server_time_ms()
  local score = redis.call('ZRANGE', zset, '-1', '-1', 'WITHSCORES')[2]
  local last = math.min(math.max(now, tonumber(score or 0)), now + 9999999000)
  local limit = redis.call('ZCARD', held_back) > 0 and now + 9999999000 or last
  return last, '(' .. digits((limit + 86400000) * 1000)
end
