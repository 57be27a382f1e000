-- Parsers of a queue's stored attributes. They are lenient: other clients store fractions and
-- invalid values.

-- Returns a decimal number of at most 20 characters, with or without a fraction; nil for anything else.
local function decimal(text)
  if text and #text <= 20 and string.find(text, '^[+-]?%d*%.?%d*$') then
    return tonumber(text)
  end
end

-- Returns vt or delay in ms, limited to 0 to 9,999,999 s; nil if it is not a number.
local function stored_ms(text)
  local seconds = decimal(text)
  if seconds then
    return math.floor(math.min(math.max(seconds, 0), 9999999) * 1000 + 0.5)
  end
end

-- Returns the size limit; -1 is unlimited. A value that can't be a limit counts as the default.
local function stored_maxsize(text)
  local limit = decimal(text)
  if not limit or (limit < 1 and limit ~= -1) then
    return 65536
  end
  return math.floor(limit)
end

local function no_number(item, text)
  return redis.error_reply('INVALIDVALUE ' .. item .. ' ' .. text)
end
