-- Sends of messages with groups, whose records groups.lua describes.
-- @include digits.lua
-- @include groups.lua
-- @include local_groups.lua
-- @include variadic.lua

-- Fails, before the first change, if the ids with these suffixes have groups that are on another node of a cluster.
local function require_local_groups(zset, suffixes)
  for at = 22, #suffixes, 22 do
    if string.sub(suffixes, at - 1, at) == 'Gr' then
      require_local_group_keys(zset)
      return
    end
  end
end

-- If there are more records than messages, removes those of messages that are gone, which no admission reads if their group
-- is not used any more: it examines twice as many as the batch has messages, chosen at random. The first command fails,
-- before any change, if the user lacks the right.
local function remove_free_groups(zset, groups, messages)
  if not next(groups) then
    return
  end
  local records = zset .. ':x:group_of'
  redis.call('HDEL', records, '\0none') -- Redis then allows the rest if memory is full
  if redis.call('HLEN', records) <= redis.call('ZCARD', zset) then
    return
  end
  local found = redis.call('HRANDFIELD', records, 2 * messages, 'WITHVALUES') or {}
  for at = 1, #found, 2 do
    if is_gone(zset, found[at]) then
      forget_group(zset, string.match(found[at + 1], '^%d+:(.+)$') or '', found[at])
    end
  end
end

-- Stores the groups of new messages. The first ones of each group are admitted while there is room; the others are held
-- back: it replaces their scores in `members`, pairs of score and id. `groups` has the group of each of these ids that has one.
-- `is_grouped` is the field x:groups as stored.
local function store_groups(zset, hash, groups, members, now, is_grouped)
  if not next(groups) then
    return
  elseif not is_grouped then
    begin_groups(zset, hash)
  end
  local rooms, records, lists = {}, {}, {admitted = {}, held_back = {}}
  local is_empty = redis.call('ZCARD', zset .. ':x:admitted') + redis.call('ZCARD', zset .. ':x:held_back') == 0
  local later = digits(now + 86400000)
  for at = 2, #members, 2 do
    local id = members[at]
    local group = groups[id]
    if group then
      local room = rooms[group] or is_empty and most_of(group) or admit(zset, hash, group)
      records[#records + 1], records[#records + 2] = id, members[at - 1] .. ':' .. group
      local list = room > 0 and lists.admitted or lists.held_back
      list[#list + 1], list[#list + 2] = '0', group .. '\0' .. id
      if room == 0 then
        members[at - 1] = later
      end
      rooms[group] = math.max(room - 1, 0)
    end
  end
  variadic('HSET', zset .. ':x:group_of', records)
  variadic('ZADD', zset .. ':x:admitted', lists.admitted)
  variadic('ZADD', zset .. ':x:held_back', lists.held_back)
end
