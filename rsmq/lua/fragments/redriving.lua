-- Messages that are redriven: new ids, and the groups of the old ones.
-- @include groups.lua

-- Returns the new id of a dead letter. If it may have a group, the new id says so too; its group is put into `groups`, by
-- the new id.
local function redriven_id(zset, id, new, groups)
  if string.sub(id, -2) ~= 'Gr' then
    return new
  end
  new = string.sub(new, 1, -3) .. 'Gr'
  local _, group = group_of(zset, id)
  groups[new] = group
  return new
end
