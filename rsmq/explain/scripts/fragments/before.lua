-- The message for which another one of its group is held back.
-- @include held_back.lua
-- @include groups.lua

-- Returns {group, id, score, receive count or nil} of the first admitted message of the group; without an id if none is
-- there, until a sweep. Returns false if the message is not held back.
local function message_before(hash, zset, id)
  if not due_of_held_back(zset, hash, id) then
    return false
  end
  local _, group = group_of(zset, id)
  for _, member in ipairs(members_of(zset .. ':x:admitted', group, '100')) do
    local other = string.sub(member, #group + 2)
    local score = redis.call('ZSCORE', zset, other)
    if score then
      return {group, other, score, redis.call('HGET', hash, other .. ':rc')}
    end
  end
  return {group}
end
