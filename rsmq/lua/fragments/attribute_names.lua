-- The fields of a queue that are no messages' and that stay when it is purged.
-- @include attribute_fields.lua

-- Returns {name, value, name ...} of those that are stored, and the names of the others: those that known clients
-- store, and not x:limited, which is about the messages.
local function stored_attributes(hash)
  local names, found, missing = fields_that_stay(), {}, {}
  local values = redis.call('HMGET', hash, unpack(names))
  for at, name in ipairs(names) do
    if values[at] then
      found[#found + 1] = name
      found[#found + 1] = values[at]
    else
      missing[#missing + 1] = name
    end
  end
  return found, missing
end
