-- Messages that are redriven: new ids, and the records of the old ones.
-- @include moving.lua

-- Returns the new id of a dead letter. If it may have a group, the new id says so too. By the new id, its group is put into
-- `groups`, and its other records into `others`.
local function redriven_id(zset, id, new, groups, others)
  if string.sub(id, -2) == 'Gr' then
    new = string.sub(new, 1, -3) .. 'Gr'
  end
  local records = records_to_move(zset, id)
  groups[new] = string.match(records[':x:group_of'] or '', '^%d+:(.+)$')
  records[':x:group_of'], others[new] = nil, records
  return new
end

-- Stores the other records of messages that were added to a queue.
local function store_others(zset, others)
  for id, records in pairs(others) do
    store_moved(zset, id, records)
  end
end
