-- Returns facts of several queues. Nothing is changed.
--
-- KEYS[1...] queues      keys      of each queue: its hash, its sorted set of ids, and its history if a fact needs it
-- ARGV[1] facts          string    the names of the facts, with a space between
-- ARGV[2] width          integer   keys of a queue
-- ARGV[3] prefix         string    what the names of keys have before the name of a queue
-- ARGV[4] fresh          integer   of backlog: ms; messages that became visible so long ago or later are counted
-- ARGV[5] sample         integer   of hidden: messages of a queue to count at most
-- ARGV[6] most           integer   of next: hidden messages of a queue to look at
-- ARGV[7...] receipts    strings   of receipts: for each queue how many words follow, then id and receive count of each
--                                  message
--
-- returns {ms now, for each queue a list of what the fragments return for its facts}; nil for a fact of a queue that does
--         not exist, or whose keys have another type
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue_attributes.lua
-- @include queue_backlog.lua
-- @include queue_activity.lua
-- @include queue_rates.lua
-- @include hidden_messages.lua
-- @include next_messages.lua
-- @include held_messages.lua
-- @include queue_bodies.lua
-- @include largest_group.lua

local queues = KEYS
local facts, width, prefix, fresh, sample, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local receipts = ARGV

local now = server_time_ms()
local hour = math.floor(now / 3600000)
local options = {now = now, now_ms = digits(now), since_ms = digits(now - fresh), hour = 'm' .. digits(hour),
  hour_before = 'm' .. digits(hour - 1), prefix = prefix, sample = tonumber(sample), most = most, words = receipts}

local function read(fact, hash, zset, history)
  if fact == 'backlog' then
    return queue_backlog(hash, zset, options)
  elseif fact == 'attributes' then
    return queue_attributes(hash, zset)
  elseif fact == 'activity' then
    return queue_activity(hash, history, options)
  elseif fact == 'rates' then
    return queue_rates(hash, history, options)
  elseif fact == 'hidden' then
    return hidden_messages(hash, zset, options)
  elseif fact == 'next' then
    return next_messages(hash, zset, options)
  elseif fact == 'bodies' then
    return queue_bodies(hash, zset)
  elseif fact == 'groups' then
    return largest_group(zset)
  end
  return held_messages(hash, zset, options)
end

local wanted = {}
for fact in string.gmatch(facts, '%a+') do
  wanted[#wanted + 1] = fact
end

local found, word = {options.now_ms}, 7
for at = 1, #queues, tonumber(width) do
  if receipts[word] then
    options.first, options.last = word + 1, word + tonumber(receipts[word])
    word = options.last + 1
  end
  local values = {}
  for place = 1, #wanted do
    local has_read, value = pcall(read, wanted[place], queues[at], queues[at + 1], queues[at + 2])
    values[place] = has_read and value or false
  end
  found[#found + 1] = values
end
return found
