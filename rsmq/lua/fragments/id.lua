-- The id of a new message.

-- Returns the time part of an id: ten base-36 digits of microseconds.
local function base36(number)
  local characters = {}
  for at = 10, 1, -1 do
    local digit = number % 36
    characters[at] = digit < 10 and digit + 48 or digit + 87
    number = (number - digit) / 36
  end
  return string.char(unpack(characters))
end
