-- Decides which attempt of a write is published, by the names of its parts. There is one decision
-- for each batch of a write; until the last decision is carried out, it is returned again.
--
-- KEYS[1] written     hash     by write its last batch, as in fragments/highest.lua
-- KEYS[2...] staged   hashes   for each queue its messages by write, batch, attempt and part
-- ARGV[1] write       string   the name of the write
-- ARGV[2] batch       integer  the number of the batch
-- ARGV[3] decision    bytes    {{queue's name, part ...} ...}, in the order of the keys
-- ARGV[4] lifetime    integer  ms until the decision expires
--
-- returns {batch, decision} to carry out, which may be an earlier decision; {batch} if this batch or a
--         later one was already carried out; {} if parts are missing, then nothing is decided
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include lifetime.lua

local written = KEYS[1]
local write, batch, decision, lifetime = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local staged = KEYS

local last = redis.call('HGET', written, write)
if last then
  local number, open = unpack(cmsgpack.unpack(last))
  if open ~= '' then
    return {number, open}
  elseif number >= batch then
    return {number}
  end
end
for at, of in ipairs(cmsgpack.unpack(decision)) do
  for part = 2, #of do
    if redis.call('HEXISTS', staged[at + 1], of[part]) == 0 then
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
