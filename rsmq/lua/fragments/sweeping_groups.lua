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

-- Returns the range of the members of groups from one to another.
local function range_of_groups(first, last)
  return '[' .. first .. '\0', '(' .. last .. '\1'
end

-- Returns the ids and the groups of the first members behind `from`, and these members: at most 500, and fewer if their
-- groups have more than 1,000 messages that are admitted.
local function held_back_page(admitted, held_back, from)
  local page = {ids = {}, groups = {}}
  local members = redis.call('ZRANGEBYLEX', held_back, from == '' and '-' or '(' .. from, '+',
    'LIMIT', '0', '500')
  for at, member in ipairs(members) do
    local zero = string.find(member, '\0', 1, true)
    page.groups[at], page.ids[at] = string.sub(member, 1, zero - 1), string.sub(member, zero + 1)
  end
  page.members, page.size = members, #members
  while page.size > 1 and redis.call('ZLEXCOUNT', admitted,
    range_of_groups(page.groups[1], page.groups[page.size])) > 1000 do
    page.size = math.ceil(page.size / 2)
  end
  return page
end

-- Returns the groups of a page that have a message that is admitted, and the members of `page` that are in both lists.
local function admitted_of(zset, admitted, page)
  local is_held, is_of_page, busy, both = {}, {}, {}, {}
  for at = 1, page.size do
    is_held[page.members[at]], is_of_page[page.groups[at]] = true, true
  end
  local first, last = range_of_groups(page.groups[1], page.groups[page.size])
  local ids, groups, number = {}, {}, 0
  for _, member in ipairs(redis.call('ZRANGEBYLEX', admitted, first, last, 'LIMIT', '0', '1000')) do
    local zero = string.find(member, '\0', 1, true)
    local group = string.sub(member, 1, zero - 1)
    if is_of_page[group] then
      number = number + 1
      ids[number], groups[number] = string.sub(member, zero + 1), group
      both[member] = is_held[member]
    end
  end
  for at, score in ipairs(number > 0 and redis.call('ZMSCORE', zset, unpack(ids)) or {}) do
    busy[groups[at]] = busy[groups[at]] or score and true
  end
  return busy, both
end

-- Examines messages behind the position `from`. Removes the records of those that are gone, completes admissions that a
-- crash has cut, keeps the scores of the others a day ahead, and admits messages of groups that have none. It stops after
-- 250 changes. Returns the position of the next step, or false at the end; and the number of messages that were
-- admitted.
local function sweep_step(zset, hash, admitted, held_back, from, now)
  local page = held_back_page(admitted, held_back, from)
  if page.size == 0 then
    return false, 0
  end
  local members, groups, ids = page.members, page.groups, page.ids
  local busy, both = admitted_of(zset, admitted, page)
  local scores = redis.call('ZMSCORE', zset, unpack(ids, 1, page.size))
  local changes, number, least = 0, 0, now + 43200000
  for at = 1, page.size do
    local id, group, score = ids[at], groups[at], scores[at]
    if not score then
      forget_group(zset, group, id)
      changes = changes + 1
    elseif both[members[at]] then
      admit_message(zset, hash, group, id)
      changes = changes + 1
    elseif tonumber(score) < least and not was_shown(hash, id) then
      redis.call('ZADD', zset, digits(now + 86400000), id)
      changes = changes + 1
    end
    if not busy[group] and (at == page.size or groups[at + 1] ~= group or changes >= 250) then
      local _, admitted = admit(zset, hash, group)
      number = number + (admitted and 1 or 0)
      changes = changes + 1
    end
    if changes >= 250 then
      return members[at], number
    end
  end
  return (#members == 500 or page.size < #members) and members[page.size], number
end
