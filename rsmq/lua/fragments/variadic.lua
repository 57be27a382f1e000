-- Commands with many arguments, in several calls: unpack accepts fewer than 8,000.

-- Calls a command with all arguments. Arguments that are pairs stay together.
local function variadic(command, key, arguments)
  for at = 1, #arguments, 4000 do
    redis.call(command, key, unpack(arguments, at, math.min(at + 3999, #arguments)))
  end
end

-- Returns the value for each argument, in order.
local function values_of(command, key, arguments)
  if #arguments <= 4000 and #arguments > 0 then
    return redis.call(command, key, unpack(arguments))
  end
  local values = {}
  for at = 1, #arguments, 4000 do
    local part = redis.call(command, key, unpack(arguments, at, math.min(at + 3999, #arguments)))
    for each = 1, #part do
      values[at + each - 1] = part[each]
    end
  end
  return values
end
