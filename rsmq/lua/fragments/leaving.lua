-- The steps after messages have left their queue. The functions for groups and flows are made only for messages that
-- may have some: functions take time in frequent scripts.

-- After messages have left the queue, however they did: admits the next ones of their groups, and ends nodes of flows whose
-- outcome is not known. While the slot of the queue is being moved, or if the user lacks the rights, this is left to the
-- next send and the sweep, or to the next check of the flow. The next ones are due from the ms `earliest` on, by default
-- now.
local function note_left(zset, hash, ids, earliest)
  local grouped, of_flows
  for at = 1, #ids do
    if string.byte(ids[at], -1) == 114 then -- r
      local mark = string.byte(ids[at], -2)
      if mark == 71 then -- Gr, the end of ids with a group
        grouped = grouped or {}
        grouped[#grouped + 1] = ids[at]
      elseif mark == 70 then -- Fr, the end of ids of nodes
        of_flows = of_flows or {}
        of_flows[#of_flows + 1] = ids[at]
      end
    end
  end
  if grouped then
    -- @include groups.lua
    for _, id in ipairs(grouped) do
      pcall(leave_group, zset, hash, id, earliest) -- it may end at any of its writes
    end
  end
  if of_flows then
    -- @include lost_nodes.lua
    for _, id in ipairs(of_flows) do
      pcall(end_lost_node, zset, id)
    end
  end
end
