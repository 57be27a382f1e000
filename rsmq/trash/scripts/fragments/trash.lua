-- Deletions that can be restored. The hash of the trash has by the id of a deletion
-- 'state kind ms messages names facts': the state is kept, undoing or undone; ms is its time; names are those of the
-- keys that are kept, as in 'hash=,dedup=1795199745846,', with the ms at which each would expire by itself.
-- @include digits.lua

-- Ms for which a deletion can be undone.
local function undo_ms()
  return 600000
end

-- Ms that kept keys live. In the minute after the end, a later call removes them without blocking the server, as the
-- expiry of a large key would.
local function life_ms()
  return undo_ms() + 60000
end

-- Returns a deletion; nothing if there is none of this id.
local function deletion_of(trash, id)
  local text = redis.call('HGET', trash, id)
  if text then
    local state, kind, ms, messages, names, facts = string.match(text, '^(%a+) (%S+) (%d+) (%d+) (%S*) (.*)$')
    return {state = state, kind = kind, ms = tonumber(ms), messages = tonumber(messages), names = names, facts = facts}
  end
end

-- Stores a deletion.
local function put_deletion(trash, id, deletion)
  redis.call('HSET', trash, id, table.concat({deletion.state, deletion.kind, digits(deletion.ms),
    digits(deletion.messages), deletion.names, deletion.facts}, ' '))
  redis.call('PEXPIRE', trash, digits(life_ms()))
end

-- Returns the ms at which a kept key would expire by itself, '' if never; nothing if no such key is kept.
local function own_expiry(deletion, name)
  for each, ms in string.gmatch(deletion.names, '([^=,]+)=(%d*),') do
    if each == name then
      return ms
    end
  end
end

-- Returns the names of keys in a list with commas.
local function names_in(list)
  local found = {}
  for each in string.gmatch(list, '[^,]+') do
    found[#found + 1] = each
  end
  return found
end
