-- Ends what a worker did with messages: removes them, hides them for a time from now, or releases them
-- to where they stood by their sent time; or extends what it goes on with. Each is given its receipt, of
-- one queue or several. A worker whose name another one has can only remove.
--
-- KEYS[1] held         hash              what the worker holds, as in fragments/held.lua
-- KEYS[2...] queues    hash, sorted set  of each group the two keys of its queue
-- ARGV[1] token        string            who asks
-- ARGV[2...] messages  strings           of each group what is done (delete, hide, release, extend), '1' if
--                                        its messages ran in quarantine and the outcome of that is known,
--                                        else '', the queue's name, and the group as in fragments/receipts.lua;
--                                        with each id ms: to delete nothing, to hide and to extend for how
--                                        long, to release when it was sent, '' = not known
--
-- returns a digit for each message: 1 it was done, 0 it is not in the queue, 2 it was received again
--         since
-- errors  WORKERREPLACED: then nothing is extended. A missing queue has no such message
-- source  none in Node; what is written is what npm rsmq 0.12.4 deleteMessage and
--         changeMessageVisibility write
-- @include time_ms.lua
-- @include digits.lua
-- @include reserved.lua
-- @include due.lua
-- @include full.lua
-- @include variadic.lua
-- @include workers.lua
-- @include held.lua

local held = KEYS[1]
local queues = KEYS
local token = ARGV[1]
local messages = ARGV

for at = 2, #queues, 2 do
  allow_removal(queues[at + 1], queues[at]) -- also fails on a key of another type
end
local mine = has_name(held, token)
if not mine and messages[2] == 'extend' then
  return redis.error_reply('WORKERREPLACED ' .. held)
end

local now = server_time_ms()
local answer, from = {}, 2
for at = 2, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local done, quarantined, name = messages[from], messages[from + 1], messages[from + 2]
  local number, count = tonumber(messages[from + 3]), messages[from + 4]
  local stride = done == 'delete' and 1 or 2
  local ids, told = {}, {}
  for each = 1, number do
    ids[each] = messages[from + 5 + (each - 1) * stride]
  end
  local fit, places = held_still(hash, zset, ids, count, told)
  if not mine and done ~= 'delete' then -- they are the successor's
    told, fit = {string.rep('2', number)}, {}
  elseif done == 'delete' then
    variadic('ZREM', zset, fit)
    variadic('HDEL', hash, fields_of(fit))
  else
    local members = {}
    for each, id in ipairs(fit) do
      local ms = tonumber(messages[from + 6 + (places[each] - 1) * stride])
      local score = done ~= 'release' and now + ms or math.min(ms or now, now)
      members[2 * each - 1], members[2 * each] = digits(score), id
    end
    score_present(zset, members)
  end
  if mine and done ~= 'extend' then
    forget_held(held, ids, count .. ':' .. name, fit)
  end
  if quarantined == '1' then
    end_quarantine(zset, fit)
  end
  from = from + 5 + number * stride
  answer[#answer + 1] = table.concat(told)
end
return table.concat(answer)
