-- Returns a number as decimal digits without an exponent.
local function digits(number)
  return string.format('%.0f', number)
end
