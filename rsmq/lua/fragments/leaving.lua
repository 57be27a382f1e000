-- The steps after messages have left their queue. The functions of groups.lua are made only for messages that may
-- have a group: functions take time in frequent scripts.

-- After messages have left the queue, however they did: admits the next ones of their groups. While the slot of the
-- queue is being moved, or if the user lacks the right to the groups, this is left to the next send and the sweep. The
-- next ones are due from the ms `earliest` on, by default now.
local function leave_groups(zset, hash, ids, earliest)
  local grouped
  for at = 1, #ids do
    if string.byte(ids[at], -1) == 114 and string.byte(ids[at], -2) == 71 then -- Gr, the end of ids with a group
      grouped = grouped or {}
      grouped[#grouped + 1] = ids[at]
    end
  end
  if grouped then
    -- @include groups.lua
    for _, id in ipairs(grouped) do
      pcall(leave_group, zset, hash, id, earliest) -- it may end at any of its writes
    end
  end
end
