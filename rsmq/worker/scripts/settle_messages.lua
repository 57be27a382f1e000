-- Settles messages of a worker: deletes them, hides them for a time from now, or releases them to the
-- scores of their sent times; or extends their visibility timeouts. Each message is given by its
-- receipt, in groups of one queue each. A worker whose name another worker has can only delete. The actions
-- unbegun (a release) and defer (which hides) also store how many receives of a message are no attempts, and
-- retry (which hides) why its handler failed.
--
-- KEYS[1] in_flight    hash              the worker's messages in flight, as in fragments/in_flight.lua
-- KEYS[2...] queues    hash, sorted set  for each group the two keys of its queue
-- ARGV[1] token        string            token of the calling worker
-- ARGV[2...] messages  strings           for each group its action (delete, hide, retry, defer, release, unbegun,
--                                        extend), '1' if its messages have records that change: they ran
--                                        in quarantine and were not lost, or they have receives that began
--                                        no call; else '', the queue's name, and the group as in
--                                        fragments/receipts.lua. After each id come ms, except for delete:
--                                        for hide, retry, defer and extend how long, for release and
--                                        unbegun the sent time, '' = unknown. For unbegun and defer the
--                                        number of its receives that are no attempts follows, for retry the
--                                        error. After the last group come, for each group of tracked messages, the
--                                        number of the group, of its messages, the event of fragments/jobs.lua, ms
--                                        for which an ended record lives, and for each message its result or error,
--                                        and its progress as 'done total text', each may be ''
--
-- returns a digit for each message: 1 it was settled, 0 it is not in the queue, 2 it was received again
--         since, 3 it was extended and is to be cancelled
-- errors  WORKERREPLACED: then nothing is extended. A missing queue counts as one without such messages
-- source  none in Node; what is written is what npm rsmq 0.12.4 deleteMessage and
--         changeMessageVisibility write
-- @include time_ms.lua
-- @include digits.lua
-- @include due.lua
-- @include full.lua
-- @include failed.lua
-- @include workers.lua
-- @include in_flight.lua
-- @include tracked.lua

local in_flight, token = KEYS[1], ARGV[1]
local queues = KEYS
local messages = ARGV

local from = 2
for at = 2, #queues, 2 do
  allow_removal(queues[at + 1], queues[at]) -- also fails on a key of another type
  require_local_records(queues[at + 1], messages[from], messages[from + 1])
  from = from + 5 + messages[from + 3] * stride_of(messages[from])
end
local tracked = tracked_groups(queues, messages, from)
local has_own_name = has_name(in_flight, token)
if not has_own_name and messages[2] == 'extend' then
  return redis.error_reply('WORKERREPLACED ' .. in_flight)
end

local now, answer = server_time_ms(), {}
from = 2
for at = 2, #queues, 2 do
  local hash, zset = queues[at], queues[at + 1]
  local action, has_records, name = messages[from], messages[from + 1], messages[from + 2]
  local number, count, stride = tonumber(messages[from + 3]), messages[from + 4], stride_of(action)
  local ids, results = {}, {}
  for each = 1, number do
    ids[each] = messages[from + 5 + (each - 1) * stride]
  end
  local fit, places = match_receipts(hash, zset, ids, count, results)
  settle_jobs_if(action == 'delete', hash, zset, fit, places, count, messages, tracked and tracked[at / 2], now, results)
  if not has_own_name and action ~= 'delete' then -- the messages belong to the successor
    results, fit = {string.rep('2', number)}, {}
  elseif action == 'delete' then
    remove_messages(zset, hash, fit)
    forget_errors(zset, fit, count)
  else
    local is_release = action == 'release' or action == 'unbegun'
    local members, records = {}, {}
    for each, id in ipairs(fit) do
      local place = from + 6 + (places[each] - 1) * stride
      local ms = tonumber(messages[place])
      local score = is_release and math.min(ms or now, now) or now + ms
      members[2 * each - 1], members[2 * each] = digits(score), id
      if stride == 3 then
        records[2 * each - 1], records[2 * each] = id, messages[place + 1]
      end
    end
    update_scores(zset, members)
    record_values(zset, hash, action, records, count)
  end
  if has_own_name and action ~= 'extend' then
    delete_in_flight(in_flight, ids, count .. ':' .. name, fit)
  end
  if has_records == '1' then
    update_records(zset, fit, action, count)
  end
  settle_jobs_if(action ~= 'delete', hash, zset, fit, places, count, messages, tracked and tracked[at / 2], now, results)
  from = from + 5 + number * stride
  answer[#answer + 1] = table.concat(results)
end
return table.concat(answer)
