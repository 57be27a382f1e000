-- The short way of the scripts that are called most: for them functions cost as much as commands.

-- Whether a number is as it nearly always is: digits, at most so many; or not stored yet.
local function usual(text, longest)
  return not text or text == '0' or (#text <= longest and string.find(text, '^[1-9]%d*$'))
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
