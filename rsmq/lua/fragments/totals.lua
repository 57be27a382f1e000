-- Totals and receive counts, read leniently and written as integers.

-- Whether it is an integer that Redis can count up.
local function is_integer(text)
  return text == '0' or (#text < 19 or #text == 19 and text < '9223372036854774000')
    and string.find(text, '^%-?[1-9]%d*$')
end

-- The number that is stored; a fraction is cut off. What is not there, is not a number or is too large
-- counts as 0.
local function whole(text)
  if not text then
    return 0
  elseif is_integer(text) then
    return tonumber(text)
  end
  local number = decimal(text)
  return number and number > 0 and number < 1e15 and math.floor(number) or 0
end

-- The same as text; nil if nothing is stored.
local function as_integer(text)
  return text and (is_integer(text) and text or digits(whole(text)))
end

-- Adds to what is stored.
local function add_to(hash, field, by)
  local sum = redis.pcall('HINCRBY', hash, field, by)
  if type(sum) == 'table' then -- not an integer; any other error comes again
    redis.call('HSET', hash, field, digits(whole(redis.call('HGET', hash, field)) + by))
  end
end
