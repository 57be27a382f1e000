-- Records of messages that come along with their ids, as by an import, a migration or Spark: by the end of their key, a
-- list of id and record in turn.
-- @include carried_keys.lua
-- @include limiting.lua
-- @include local_groups.lua
-- @include regrouping.lua
-- @include variadic.lua

-- Returns the records of lists, of which each comes behind the number of its texts, from index `at` on; and the index
-- behind them.
local function read_carried(lists, at)
  local carried = {}
  for _, name in ipairs(carried_keys()) do
    local last = at + tonumber(lists[at])
    carried[name] = {}
    for each = at + 1, last do
      carried[name][each - at] = lists[each]
    end
    at = last + 1
  end
  return carried, at
end

-- Returns the records of messages that are in the queue; or, with `is_in_queue` false, of those that are not.
local function carried_of(zset, carried, is_in_queue)
  local found = {}
  for _, name in ipairs(carried_keys()) do
    local list, kept = carried[name] or {}, {}
    for at = 1, #list, 2 do
      if (redis.call('ZSCORE', zset, list[at]) and true or false) == is_in_queue then
        kept[#kept + 1], kept[#kept + 2] = list[at], list[at + 1]
      end
    end
    found[name] = kept
  end
  return found
end

-- If a text has the records of a message, each behind a zero byte, returns true, and adds them to `carried`, unless the
-- message is in the queue already.
local function split_carried(carried, zset, id, text)
  local is_carried = string.byte(text) == 0
  if is_carried and id ~= '' and not redis.call('ZSCORE', zset, id) then
    local names, place = carried_keys(), 0
    for record in string.gmatch(text, '%z([^%z]*)') do
      place = place + 1
      local name = names[place]
      local list = name and carried[name] or {}
      if name and record ~= '' then
        list[#list + 1], list[#list + 2] = id, record
        carried[name] = list
      end
    end
  end
  return is_carried
end

-- Before messages are added: removes records of messages that have left the queue. Fails, before any change, if memory is
-- full, or without the right to the records.
local function prepare_carried(zset, hash, carried)
  require_local_groups_of(zset, carried[':x:group_of'] or {})
  for _, name in ipairs(carried_keys()) do
    local number = #(carried[name] or {}) / 2
    if name ~= ':x:group_of' and number > 0 then
      require_local_beside(zset, name)
      redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails if memory is full; after the next ones Redis allows all
      local limited = name ~= ':x:limits' or redis.call('HGET', hash, 'x:limited')
      remove_free_limits(zset .. name, number, zset, limited)
    end
  end
end

-- Stores the records of messages that were added.
local function store_carried(zset, hash, carried, now)
  for _, name in ipairs(carried_keys()) do
    local list = carried[name] or {}
    if name == ':x:group_of' then
      regroup(zset, hash, list, now)
    elseif #list > 0 then
      if name == ':x:limits' then
        mark_limited(hash, redis.call('HGET', hash, 'x:limited'), '1')
      end
      variadic('HSET', zset .. name, list)
    end
  end
end
