-- A step of a sweep through the messages that are held back.
-- @include digits.lua
-- @include full.lua
-- @include groups.lua

-- Fails before any change if the user lacks the right to these keys; then allows changes if memory is full.
local function allow_sweep(zset, admitted, held_back, records)
  allow_when_full(zset)
  redis.call('ZREM', admitted, '')
  redis.call('ZREM', held_back, '')
  redis.call('HDEL', records, '\0none')
end

-- Returns how many records x:group_of has more than the lists, or less if it is negative. A message has a record in it and
-- in one of the lists; a dead letter of another queue has one in it only. Without the right to HLEN, it returns 0.
local function surplus_of(records, admitted, held_back)
  local number = redis.pcall('HLEN', records)
  return type(number) == 'number' and number - redis.call('ZCARD', admitted) - redis.call('ZCARD', held_back) or 0
end

-- Returns whether a message with a group is held back, and not listed any more. `score` is that of the queue.
local function is_unlisted(zset, hash, admitted, held_back, group, id, score, now)
  local member = group .. '\0' .. id
  return tonumber(score) > now and not was_shown(zset, hash, id) and not redis.call('ZSCORE', admitted, member)
    and not redis.call('ZSCORE', held_back, member)
end

-- Lists messages in x:held_back again if that key was lost, from a cursor of x:group_of on. Returns the next cursor, or
-- nothing at the end, and without the right to HSCAN.
local function list_again(zset, hash, admitted, held_back, records, cursor, now)
  local scan = redis.pcall('HSCAN', records, cursor, 'COUNT', '250')
  if scan.err then
    return
  end
  for at = 1, #scan[2], 2 do
    local id, group = scan[2][at], string.match(scan[2][at + 1], '^%d+:(.+)$')
    local score = group and redis.call('ZSCORE', zset, id)
    if score and is_unlisted(zset, hash, admitted, held_back, group, id, score, now) then
      redis.call('ZADD', held_back, '0', group .. '\0' .. id)
    end
  end
  return scan[1] ~= '0' and scan[1] or nil
end

-- Stores the group of a message again if x:group_of was lost. The message may be due from its send on, whose time is in its
-- id. Returns whether it did.
local function store_again(records, group, id)
  if redis.call('HGET', records, id) then
    return false
  end
  local ms = math.floor((tonumber(string.sub(id, 1, 10), 36) or 0) / 1000)
  redis.call('HSET', records, id, digits(ms) .. ':' .. group)
  return true
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

-- Returns how many more messages of each group of a page may be admitted; and which messages are admitted. Stores their
-- groups again in `lost`, x:group_of if some are not stored.
local function admitted_of(zset, admitted, groups, size, lost)
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
    if lost and scores[at] then
      store_again(lost, owners[at], ids[at])
    end
  end
  return rooms, is_admitted
end

-- Examines a message that is held back: removes its records if it is gone, completes an admission that a crash has cut,
-- and otherwise keeps its score a day ahead. Stores its group again in `lost`, as above. Returns the number of changes.
local function examine(zset, hash, group, id, score, is_admitted, lost, now)
  local is_stored = score and lost and store_again(lost, group, id)
  if not score then
    forget_group(zset, group, id)
  elseif is_admitted then
    admit_message(zset, hash, group, id)
  elseif tonumber(score) < now + 43200000 and not was_shown(zset, hash, id) then
    redis.call('ZADD', zset, digits(now + 86400000), id)
  else
    return is_stored and 1 or 0
  end
  return 1
end

-- Admits messages of groups that have room, for messages that are held back behind the position `from`; and examines each
-- of these messages if `is_full`. Such a sweep begins with the records of x:group_of if there are more than in the lists:
-- its position is then a zero byte, with which no group begins, and a cursor. It stops after 100 changes, or 1,000 records of messages that are gone. Returns the position of the next step, or false at the end;
-- and the number of messages that were admitted.
local function sweep_step(zset, hash, admitted, held_back, records, from, now, is_full)
  local surplus = is_full and surplus_of(records, admitted, held_back) or 0
  local cursor = string.match(from, '^%z(%d+)$') or from == '' and surplus > 0 and '0'
  if cursor then
    cursor = list_again(zset, hash, admitted, held_back, records, cursor, now)
    if cursor then
      return '\0' .. cursor, 0
    end
    from = ''
  end
  local members, groups, size = held_back_page(admitted, held_back, from)
  if size == 0 then
    return false, 0
  end
  local lost = surplus < 0 and records
  local rooms, is_admitted = admitted_of(zset, admitted, groups, size, lost)
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
      changes = changes + examine(zset, hash, group, ids[at], scores[at], is_admitted[members[at]], lost, now)
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
