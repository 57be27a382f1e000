-- The size of a text as maxsize counts it.

-- Returns the number of UTF-16 code units of a text in UTF-8.
local function utf16_size(text)
  local _, characters = string.gsub(text, '[^\128-\191]', '')
  local _, of_two_units = string.gsub(text, '[\240-\247]', '')
  return characters + of_two_units
end
