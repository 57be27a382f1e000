-- Figures of handler calls by task, see call_records.py. A record is the queue's `created`, its time, calls, failed,
-- retried, dead letters, and two distributions (waits, durations): the number of their buckets, and for each the
-- distance to the one before and its count. All are numbers as in packing.lua.
-- @include digits.lua
-- @include packing.lua

-- Returns prefix, minutes and number of the steps of each level. The field of a step is used again after so many.
local function levels_of_steps()
  return {{'m', 1, 60}, {'h', 60, 24}, {'q', 360, 28}, {'d', 1440, 90}}
end

local function parse_counted(text)
  local numbers = unpack_groups(text, {#text + 1})[1]
  local record, place = {unpack(numbers, 1, 6)}, 7
  for distribution = 7, 8 do
    local buckets, bucket = {}, 0
    for at = place + 1, place + 2 * numbers[place], 2 do
      bucket = bucket + numbers[at]
      buckets[bucket] = numbers[at + 1]
    end
    record[distribution] = buckets
    place = place + 2 * numbers[place] + 1
  end
  return record
end

local function pack_counted(record, has_distributions)
  local numbers = {unpack(record, 1, 6)}
  for distribution = 7, 8 do
    local buckets = {}
    for bucket in pairs(has_distributions and record[distribution] or {}) do
      buckets[#buckets + 1] = bucket
    end
    table.sort(buckets)
    numbers[#numbers + 1] = #buckets
    for at, bucket in ipairs(buckets) do
      numbers[#numbers + 1] = bucket - (buckets[at - 1] or 0)
      numbers[#numbers + 1] = record[distribution][bucket]
    end
  end
  return pack_numbers(numbers)
end

-- Returns the stored record with others added, or these alone if it is of another queue or time. `is_total` is
-- whether its time is that of the last calls.
local function add_counted(text, created, at, added, has_distributions, is_total)
  local has_read, record = pcall(parse_counted, text or '')
  if not has_read or record[1] ~= created or (record[2] ~= at and not is_total) then
    record = {created, at, 0, 0, 0, 0, {}, {}}
  end
  record[2] = at
  for place = 3, 6 do
    record[place] = record[place] + added[place]
  end
  for distribution = 7, 8 do
    local buckets = record[distribution]
    for bucket, count in pairs(added[distribution]) do
      buckets[bucket] = (buckets[bucket] or 0) + count
    end
  end
  return pack_counted(record, has_distributions)
end

local function fields_of_steps(name)
  local fields = {}
  for _, level in ipairs(levels_of_steps()) do
    for slot = 0, level[3] - 1 do
      fields[#fields + 1] = level[1] .. digits(slot) .. ':' .. name
    end
  end
  return fields
end

local function bytes_of_records(texts)
  local bytes = 0
  for _, text in ipairs(texts) do
    bytes = bytes + (text and #text or 0)
  end
  return bytes
end

-- Returns the name under which a task is counted: its own, or an empty one if there are 100 names with calls within
-- 90 days. Removes older ones if there is no room, and returns the bytes that are left.
local function name_of_counted(totals, times, name, created, minute, bytes)
  if name == '' or redis.call('HEXISTS', totals, name) == 1 or redis.call('HLEN', totals) < 100 then
    return name, bytes
  end
  local stored, has_room = redis.call('HGETALL', totals), false
  for at = 1, #stored, 2 do
    local has_read, record = pcall(parse_counted, stored[at + 1])
    if not has_read or record[1] ~= created or record[2] < minute - 129600 then
      local fields = fields_of_steps(stored[at])
      bytes = bytes - bytes_of_records(redis.call('HMGET', times, unpack(fields)))
      redis.call('HDEL', times, unpack(fields))
      redis.call('HDEL', totals, stored[at])
      has_room = true
    end
  end
  return has_room and name or '', bytes
end
