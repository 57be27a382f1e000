-- A step of a sweep through the messages that are held back.
-- @include digits.lua
-- @include full.lua
-- @include groups.lua

-- Fails before any change if the user lacks the right to these keys; then allows changes if memory is full.
local function allow_sweep(zset, admitted, held_back, records)
  allow_when_full(zset)
  redis.call('ZREM', admitted, '')
  redis.call('ZREM', held_back, '')
  redis.call('HDEL', records, '')
end

-- Returns the group and the id of a member of one of the lists.
local function split_member(member)
  local zero = string.find(member, '\0', 1, true)
  return string.sub(member, 1, zero - 1), string.sub(member, zero + 1)
end

-- Returns the range of the members of groups from one to another.
local function range_of_groups(first, last)
  return '[' .. first .. '\0', '(' .. last .. '\1'
end

-- Returns the first members of x:held_back behind `from`, at most 500, their groups, and how many of them are to be
-- examined: fewer if their groups have more than 1,000 messages that are admitted.
local function held_back_page(admitted, held_back, from)
  local members = redis.call('ZRANGEBYLEX', held_back, from == '' and '-' or '(' .. from, '+', 'LIMIT', '0', '500')
  local groups, size = {}, #members
  for at = 1, size do
    groups[at] = split_member(members[at])
  end
  while size > 1 and redis.call('ZLEXCOUNT', admitted, range_of_groups(groups[1], groups[size])) > 1000 do
    size = math.ceil(size / 2)
  end
  return members, groups, size
end

-- Returns how many more messages of each group of a page may be admitted; and which messages are admitted.
local function admitted_of(zset, admitted, groups, size)
  local rooms, is_admitted = {}, {}
  for at = 1, size do
    rooms[groups[at]] = rooms[groups[at]] or most_of(groups[at])
  end
  local first, last = range_of_groups(groups[1], groups[size])
  local ids, owners, number = {}, {}, 0
  for _, member in ipairs(redis.call('ZRANGEBYLEX', admitted, first, last, 'LIMIT', '0', '1000')) do
    local group, id = split_member(member)
    if rooms[group] then
      number = number + 1
      ids[number], owners[number] = id, group
      is_admitted[member] = true
    end
  end
  local scores = number > 0 and redis.call('ZMSCORE', zset, unpack(ids)) or {}
  for at = 1, number do
    rooms[owners[at]] = rooms[owners[at]] - (scores[at] and 1 or 0)
  end
  return rooms, is_admitted
end

-- Examines a message that is held back: removes its records if it is gone, completes an admission that a crash has cut,
-- and otherwise keeps its score a day ahead. Returns the number of changes.
local function examine(zset, hash, group, id, score, is_admitted, now)
  if not score then
    forget_group(zset, group, id)
  elseif is_admitted then
    admit_message(zset, hash, group, id)
  elseif tonumber(score) < now + 43200000 and not was_shown(hash, id) then
    redis.call('ZADD', zset, digits(now + 86400000), id)
  else
    return 0
  end
  return 1
end

-- Admits messages of groups that have room, for messages that are held back behind the position `from`; and examines each
-- of these messages if `is_full`. It stops after 100 changes, or 1,000 records of messages that are gone. Returns the position of the next step, or false at the end;
-- and the number of messages that were admitted.
local function sweep_step(zset, hash, admitted, held_back, from, now, is_full)
  local members, groups, size = held_back_page(admitted, held_back, from)
  if size == 0 then
    return false, 0
  end
  local rooms, is_admitted = admitted_of(zset, admitted, groups, size)
  local ids, scores = {}, nil
  if is_full then
    for at = 1, size do
      local _, id = split_member(members[at])
      ids[at] = id
    end
    scores = redis.call('ZMSCORE', zset, unpack(ids))
  end
  local changes, number = 0, 0
  for at = 1, size do
    local group = groups[at]
    if is_full then
      changes = changes + examine(zset, hash, group, ids[at], scores[at], is_admitted[members[at]], now)
    end
    if rooms[group] > 0 and (at == size or groups[at + 1] ~= group or changes >= 100) then
      local _, admissions, removed = admit(zset, hash, group)
      changes, number = changes + math.max(admissions, 1, removed / 10), number + admissions
    end
    if changes >= 100 then
      return members[at], number
    end
  end
  return (#members == 500 or size < #members) and members[size], number
end
