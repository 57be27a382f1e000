-- Options that are packed in one argument: a JSON object, as operations/send_options.py writes it.

-- Returns the options by name. An option with a value for each message is a list, with '' for a message without it. Nothing is
-- packed as ''.
local function read_options(packed)
  return packed ~= '' and cjson.decode(packed) or {}
end
