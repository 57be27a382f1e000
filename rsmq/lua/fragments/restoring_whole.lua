-- Messages that are added as they were, with their groups and limits.
-- @include digits.lua
-- @include local_groups.lua
-- @include regrouping.lua
-- @include relimiting.lua
-- @include restoring.lua

-- Returns {id, value, id ...} of those of these ids that are not in the queue.
local function of_absent(zset, pairs)
  local found = {}
  for at = 1, #pairs, 2 do
    if not redis.call('ZSCORE', zset, pairs[at]) then
      found[#found + 1], found[#found + 2] = pairs[at], pairs[at + 1]
    end
  end
  return found
end

-- Adds the messages whose ids are not in the queue, of `rows` from index `at` on, as in restoring.lua. The others are
-- lists of ids, each followed by its group, or by its limits as in limits.lua. Returns how many were added.
local function restore_whole(hash, zset, rows, at, groups, records, now)
  groups, records = of_absent(zset, groups), of_absent(zset, records)
  require_local_groups_of(zset, groups)
  prepare_limits(hash, zset, records)
  local added = restore(hash, zset, rows, at, digits(now))
  add_limits(hash, zset, records)
  regroup(zset, hash, groups, now)
  return added
end
