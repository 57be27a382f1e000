-- The number of messages to receive; for batches that wait until they are full, too.
-- @include digits.lua

-- Returns how many of at most `most` visible messages make batches that are full, or whose first message has been
-- visible for `ms`; and the ms until the first of the others has been so, 0 if there are no others, nil if some of
-- them could be received now.
local function full_batches(zset, now, size, ms, most)
  local number = redis.call('ZCOUNT', zset, '-inf', digits(now))
  local full = number - number % size
  if full > most then
    return most < size and most or most - most % size
  elseif full == number then
    return number, 0
  end
  local rest = redis.call('ZRANGEBYSCORE', zset, '-inf', digits(now), 'WITHSCORES', 'LIMIT', digits(full), '1')
  local left = rest[2] + ms - now
  if left > 0 then
    return full, left
  end
  return math.min(number, most), number <= most and 0 or nil
end

-- Returns the messages of a handler call and the maximum number of messages to receive, by the arguments of a
-- request, which begin at a place: the first may be NUMBER:MS. Then it also returns what follows the messages: a
-- blank and the ms until further ones are received, '' if there are none, nil if more can be received.
local function plan_batches(zset, now, slots, requests, at)
  local size = tonumber(requests[at])
  if size then
    return size, math.min(requests[at + 2], slots * size + requests[at + 1])
  end
  local number, ms = string.match(requests[at], '^(%d+):(%d+)$')
  size = tonumber(number)
  local most = math.min(requests[at + 2], slots * size + requests[at + 1])
  local wanted, left = full_batches(zset, now, size, tonumber(ms), most)
  return size, wanted, left and (left > 0 and ' ' .. digits(left) or '')
end
