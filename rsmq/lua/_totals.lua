-- Totals and counts, which must be integers to be raised.

-- One that can't be raised fails here, before anything is changed.
local function require_integer(hash, field, stored)
  if stored and (#stored > 15 or not string.find(stored, '^%-?%d+$')) then
    redis.call('HINCRBY', hash, field, 20000)
    redis.call('HINCRBY', hash, field, -20000)
  end
end

-- One raised, to be written along with other fields: that costs less than HINCRBY, which what is
-- too large for Lua's numbers needs all the same.
local function raised(hash, field, stored, by)
  if not stored then
    return digits(by)
  elseif #stored <= 15 then
    return digits(stored + by)
  end
  redis.call('HINCRBY', hash, field, by)
  return redis.call('HGET', hash, field)
end
