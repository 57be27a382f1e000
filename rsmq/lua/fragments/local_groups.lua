-- The keys of groups beside a queue, while its slot of a cluster is being moved.
-- @include local_keys.lua

-- Fails, before the first change, if one of them is on another node.
local function require_local_group_keys(zset)
  if type(redis.pcall('EXISTS', zset, zset .. ':x:group_of', zset .. ':x:admitted', zset .. ':x:held_back'))
    == 'table' then
    require_local_beside(zset, ':x:group_of')
    require_local_beside(zset, ':x:admitted')
    require_local_beside(zset, ':x:held_back')
  end
end

-- Does the same if one of these texts is the id of a message that may have a group.
local function require_local_groups_of(zset, ids)
  for _, id in ipairs(ids) do
    if string.sub(id, -2) == 'Gr' then
      return require_local_group_keys(zset)
    end
  end
end
