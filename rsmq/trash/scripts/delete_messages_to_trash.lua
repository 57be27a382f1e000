-- Deletes messages as delete_messages.lua does, and keeps them for ten minutes. Several steps may add to a deletion.
--
-- KEYS[1] trash       hash     what can be restored
-- KEYS[2] hash        hash     the queue's attributes, bodies and counters
-- KEYS[3] kept_hash   hash     bodies and counters that are kept
-- KEYS[4] zset        sorted set  the queue's message ids
-- KEYS[5] kept_zset   sorted set  those that are kept
-- KEYS[6...] beside   keys     of the extension data by message id the key, and the one for what is kept
-- ARGV[1] id          string   of the deletion
-- ARGV[2] facts       string   what else is stored of it
-- ARGV[3] names       string   the names of the keys, with commas between them
-- ARGV[4] room        integer  bytes of bodies to move, except for the first body
-- ARGV[5] strict      string   '1' = change nothing unless all messages are as they were
-- ARGV[6] open        integer  ms after its begin at which nothing more is added to a deletion; '' = when it is over
-- ARGV[7...] rows     strings  the messages, as in fragments/unchanged.lua
--
-- returns {ms of the deletion, the number of rows that were looked at, a digit for each of these: 1 if it was deleted,
--         0 if it is not in the queue or not as it was}; the number is -1 if nothing was changed because of strict, -2
--         because of open
-- errors  QUEUENOTFOUND, TRASHOFF, CANNOTUNDO if the deletion was undone meanwhile, or is over
-- source  none in Node; the queue is as after delete_messages.lua
-- @include time_ms.lua
-- @include due.lua
-- @include full.lua
-- @include queue.lua
-- @include variadic.lua
-- @include trash.lua
-- @include emptying.lua
-- @include unchanged.lua
-- @include copying.lua
-- @include held_back.lua
-- @include adding.lua

local trash, hash, kept_hash, zset, kept_zset = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local beside = KEYS
local id, facts, names, room, strict, open = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local rows = ARGV

local now = server_time_ms()
local stored = queue(hash, 'created', 'x:limited')
if not stored then
  return queue_not_found(hash)
end
local deletion = deletion_of(trash, id)
if deletion and deletion.state == 'kept' and open ~= '' and deletion.ms + tonumber(open) <= now then
  return {deletion.ms, -2, ''}
end
local refusal = deletion and not_open(deletion, now) or not deletion and trash_off(trash, now)
if refusal then
  return refusal
end
deletion = deletion or {state = 'kept', kind = 'delete-messages', ms = now, messages = 0, names = '', facts = facts}

local answers = {}
for at = 7, #rows, 3 do
  -- 2: a step whose reply was lost has moved it already.
  local answer = is_unchanged(hash, zset, rows, at) and 1 or redis.call('ZSCORE', kept_zset, rows[at]) and 2 or 0
  if answer == 0 and strict == '1' then
    return {deletion.ms, -1, ''}
  end
  answers[#answers + 1] = answer
end
local fields, members, ids, looked = read_messages(hash, zset, rows, 7, answers, tonumber(room))
for at = 2, #members, 2 do
  members[at - 1] = due_of_held_back(zset, hash, members[at]) or members[at - 1]
end
if #ids > 0 then
  allow_removal(zset, hash)
  begin_adding(trash, beside, deletion, now)
  for at, name in ipairs({'created', 'x:limited'}) do
    if stored[3 + at] then
      fields[#fields + 1], fields[#fields + 2] = name, stored[3 + at]
    end
  end
  variadic('HSET', kept_hash, fields)
  variadic('ZADD', kept_zset, members)
  add_facts(beside, deletion, names, ids, now)
  deletion.messages = deletion.messages + #ids
  put_deletion(trash, id, deletion)
  remove_messages(zset, hash, ids)
end
return {deletion.ms, looked, (string.gsub(table.concat(answers, '', 1, looked), '2', '1'))}
