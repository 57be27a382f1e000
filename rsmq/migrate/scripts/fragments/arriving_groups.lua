-- The groups and the limits of messages that come from another queue.

-- If a text has a group behind a zero byte, or an empty one, and limits behind another zero byte, or none, returns true.
-- Unless the message is in the queue already, it puts the id and the group into `groups`, and the id and the limits into
-- `records`.
local function put_group(groups, records, zset, id, text)
  local group, limits = string.match(text, '^%z([^%z]*)%z?(.*)$')
  if group and id ~= '' and not redis.call('ZSCORE', zset, id) then
    if group ~= '' then
      groups[#groups + 1], groups[#groups + 2] = id, group
    end
    if limits ~= '' then
      records[#records + 1], records[#records + 2] = id, limits
    end
  end
  return group ~= nil
end
