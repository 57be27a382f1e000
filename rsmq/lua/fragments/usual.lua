-- The fast path of the most frequent scripts, in which functions take as much time as commands.
-- @include digits.lua

-- Returns whether a number has the usual form: at most so many digits; or is not stored yet.
local function usual(text, longest)
  return not text or text == '0' or (#text <= longest and string.find(text, '^[1-9]%d*$'))
end

-- Returns a number raised by `by`, for the caller to write together with other fields, which takes
-- less time than HINCRBY. A number that is too large for Lua is raised by HINCRBY.
local function raised(hash, field, stored, by)
  if not stored then
    return digits(by)
  elseif #stored <= 15 then
    return digits(stored + by)
  end
  redis.call('HINCRBY', hash, field, by)
  return redis.call('HGET', hash, field)
end
