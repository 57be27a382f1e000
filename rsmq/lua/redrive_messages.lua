-- Moves messages of a dead-letter queue to another queue, in order, each with a new id and without its
-- counters, and with its group: chosen messages, or those that are visible. If an old id ends with Gr, so does the new
-- one.
--
-- KEYS[1] hash      hash        the dead-letter queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the dead-letter queue's message ids
-- KEYS[3] to_hash   hash        the destination's attributes, bodies and counters
-- KEYS[4] to_zset   sorted set  the destination's attributes, bodies and counters
-- ARGV[1] last      integer     the last score that is visible; '' = now
-- ARGV[2] suffixes  string      the 22 random characters of each new id, sorted
-- ARGV[3] room      integer     bytes of bodies at most, except for the first body
-- ARGV[4...] chosen  strings     for each chosen message its id and receive count; '' = any
--
-- returns {ms now, first part of the new ids, {old ids}, how many of the chosen messages were examined}
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_us.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include id.lua
-- @include local_keys.lua
-- @include local_groups.lua
-- @include grouping.lua
-- @include redriving.lua
-- @include origin.lua
-- @include due.lua
-- @include full.lua
-- @include totals.lua
-- @include due_many.lua
-- @include variadic.lua
-- @include reasons.lua

local hash, zset, to_hash, to_zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local last, suffixes, room = ARGV[1], ARGV[2], ARGV[3]
local chosen = ARGV

-- Returns the chosen messages that are in the queue, in the form of due_messages.
local function chosen_messages()
  local told, found = {}, {number = 0, size = 0, examined = 0}
  for at = 4, #chosen, 2 do
    local id, count = chosen[at], chosen[at + 1]
    local values = redis.call('HMGET', hash, id, id .. ':rc')
    local is_same = count == '' or count == (values[2] or '0')
    if is_same and values[1] and not is_reserved(id) and redis.call('ZSCORE', zset, id) then
      found.size = found.size + #values[1]
      if found.number > 0 and found.size > tonumber(room) then
        break
      end
      found.number = found.number + 1
      told[2 * found.number - 1], told[2 * found.number] = id, values[1]
    end
    found.examined = found.examined + 1
  end
  found.told = told
  return found
end

if not queue(hash) then
  return queue_not_found(hash)
end
local stored = queue(to_hash, 'x:groups')
if not stored then
  return queue_not_found(to_hash)
end
allow_removal(zset, hash)
allow_removal(to_zset, to_hash) -- these fail on a key of another type, before any change
redis.call('ZADD', to_zset, 'XX', '0', '\0none')
require_local_beside(zset, ':x:reasons')

local us = server_time_us()
local now, time = math.floor(us / 1000), base36(us)
local due = chosen[4] and chosen_messages()
  or due_messages(zset, hash, tonumber(last) or now, #suffixes / 22, tonumber(room), true)
local told, ids, fields, members, groups, others = due.told, {}, {}, {}, {}, {}
for at = 1, due.number do
  ids[at] = told[2 * at - 1]
  local new = redriven_id(zset, ids[at], time .. string.sub(suffixes, 22 * at - 21, 22 * at), groups, others)
  fields[2 * at - 1], fields[2 * at] = new, with_origin(told[2 * at], zset)
  members[2 * at - 1], members[2 * at] = digits(now), new
end
if due.number > 0 then
  require_local_groups_of(to_zset, ids)
  add_to(to_hash, 'totalsent', due.number)
  store_groups(to_zset, to_hash, groups, members, now, stored[4])
  variadic('HSET', to_hash, fields)
  variadic('ZADD', to_zset, members)
  store_others(to_zset, others)
  remove_messages(zset, hash, ids)
  forget_reasons(zset, ids)
end
return {digits(now), time, ids, due.examined or 0}
