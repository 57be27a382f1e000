-- The groups of messages that come from another queue.

-- If a text has a group behind a zero byte, returns true, and puts the id and the group into `groups`, unless the message
-- is in the queue already.
local function put_group(groups, zset, id, text)
  local group = string.match(text, '^%z(.+)$')
  if group and id ~= '' and not redis.call('ZSCORE', zset, id) then
    groups[#groups + 1], groups[#groups + 2] = id, group
  end
  return group ~= nil
end
