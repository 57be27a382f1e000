-- Stores the decision of a batch: the staged parts that will be published, those of one attempt of each task.
-- Each batch of a write has one decision. While the last decision is not carried out, it is returned again.
--
-- KEYS[1] written     hash     the last batch of each write, as in fragments/highest.lua
-- KEYS[2...] staged   hashes   the staged messages of each queue, by write, batch, attempt and part
-- ARGV[1] write       string   the name of the write
-- ARGV[2] batch       integer  the number of the batch
-- ARGV[3] decision    bytes    {{queue's name, part ...} ...}, in the order of the keys
-- ARGV[4] lifetime    integer  ms until the decision is deleted
--
-- returns {batch, decision} to carry out, which are the stored ones if those were not carried out yet;
--         {stored batch} if it is this one or a later one, and was carried out;
--         {} if a part is missing: nothing is stored
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include lifetime.lua

local written = KEYS[1]
local write, batch, decision, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local staged = KEYS

local last = redis.call('HGET', written, write)
if last then
  local number, unfinished = unpack(cmsgpack.unpack(last))
  if unfinished ~= '' then
    return {number, unfinished}
  elseif number >= batch then
    return {number}
  end
end
local parts = cmsgpack.unpack(decision)
for at = 2, #staged do
  for part = 2, #parts[at - 1] do
    if redis.call('HEXISTS', staged[at], parts[at - 1][part]) == 0 then
      return {}
    end
  end
end
redis.call('HSET', written, write, cmsgpack.pack({batch, decision, server_time_ms() + lifetime}))
keep_for(written, lifetime)
for at = 2, #staged do
  keep_for(staged[at], lifetime)
end
return {batch, decision}
