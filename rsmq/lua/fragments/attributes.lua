-- What is stored as a queue's attributes, read leniently: other clients store fractions and worse.

-- A decimal number, a fraction allowed, at most 20 characters; nil for anything else.
local function decimal(text)
  if text and #text <= 20 and string.find(text, '^[+-]?%d*%.?%d*$') then
    return tonumber(text)
  end
end

-- vt and delay in ms, kept within 0 and 9,999,999 s; nil if it is not a number.
local function stored_ms(text)
  local seconds = decimal(text)
  if seconds then
    return math.floor(math.min(math.max(seconds, 0), 9999999) * 1000 + 0.5)
  end
end

-- The size limit; what limits nothing sensible counts as the default. -1 is unlimited.
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
