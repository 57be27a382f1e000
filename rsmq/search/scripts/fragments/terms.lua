-- The terms of a filter that are compared on the server. Values that it can't judge fit: the client looks again.

local function compare(operator, left, right)
  if operator == ':' then
    return left == right
  elseif operator == '<' then
    return left < right
  elseif operator == '<=' then
    return left <= right
  elseif operator == '>' then
    return left > right
  end
  return left >= right
end

-- Returns the microseconds in an id of Node's form; nil for ids whose time the client must find.
local function us_of(id, now)
  if #id == 32 and string.find(id, '^%w+$') and (string.find(id, '%u') or not string.find(id, '%l')) then
    local us = tonumber(string.sub(id, 1, 10), 36)
    if us >= 1262304000000000 and us <= now * 1000 then
      return us
    end
  end
end

-- Returns whether an id and a receive count may fit the terms from a place on: field, operator, value ...
local function may_fit(terms, at, id, times, now)
  for each = at, #terms, 3 do
    local field, operator, value = terms[each], terms[each + 1], terms[each + 2]
    local number
    if field == 'id' and string.sub(id, 1, #value) ~= value then
      return false
    elseif field == 'rc' then
      number = not times and 0 or #times < 16 and string.find(times, '^%d+$') and tonumber(times)
    elseif field == 'sent' then
      number = us_of(id, now)
    end
    if number and not compare(operator, number, tonumber(value)) then
      return false
    end
  end
  return true
end

-- Returns whether a body contains the texts of the terms from a place on. One with steps may contain them.
local function has_texts(terms, at, body)
  for each = at, #terms, 3 do
    if terms[each] == 'body' and not string.find(body, terms[each + 2], 1, true) then
      return string.sub(body, 1, 10) == 'rsmq-body/'
    end
  end
  return true
end
