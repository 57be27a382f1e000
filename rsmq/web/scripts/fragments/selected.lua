-- The messages of a selection: rows as in unchanged.lua.
-- @include unchanged.lua

-- Returns the ids of rows, from index `at` on, of messages that are as they were; nothing if others are not, and
-- `strict` is '1'.
local function selected_ids(hash, zset, rows, at, strict)
  local ids = {}
  for row = at, #rows, 3 do
    if is_unchanged(hash, zset, rows, row) then
      ids[#ids + 1] = rows[row]
    elseif strict == '1' then
      return
    end
  end
  return ids
end
