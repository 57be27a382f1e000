-- Totals and receive counts, read leniently and written as integers.
-- @include attributes.lua
-- @include digits.lua

-- Returns whether a text is an integer that HINCRBY can raise.
local function is_integer(text)
  return text == '0' or #text <= 19 and string.find(text, '^%-?[1-9]%d*$')
    and (#text < 19 or tonumber(text) < 9223372036854774000)
end

-- Returns the stored number without its fraction. A value that is missing, is not a number or is
-- too large counts as 0.
local function whole(text)
  if not text then
    return 0
  elseif is_integer(text) then
    return tonumber(text)
  end
  local number = decimal(text)
  return number and number > 0 and number < 1e15 and math.floor(number) or 0
end

-- Returns the same as text; nil if nothing is stored.
local function as_integer(text)
  return text and (is_integer(text) and text or digits(whole(text)))
end

-- Adds a number to the stored one.
local function add_to(hash, field, by)
  local sum = redis.pcall('HINCRBY', hash, field, by)
  if type(sum) == 'table' then -- not an integer; any other error is raised again by HSET
    redis.call('HSET', hash, field, digits(whole(redis.call('HGET', hash, field)) + by))
  end
end
