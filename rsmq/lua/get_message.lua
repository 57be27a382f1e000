-- Returns a message as it is stored; nothing is changed.
--
-- KEYS[1] hash  hash        the queue's attributes, bodies and counters
-- KEYS[2] zset  sorted set  the queue's message ids
-- ARGV[1] id    string      the message's id
-- ARGV[2] cut   string      bytes of the body to return; '' = all
--
-- returns {body, receive count or nil, first-received ms or nil, score, now ms, vt as stored, as in fragments/shown.lua,
--         the error of its last attempt if it waits for a retry or nil, the bytes of the whole body}; nil if there is
--         no such message, or an id without a body
-- errors  QUEUENOTFOUND
-- source  none in Node
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include reserved.lua
-- @include shown.lua
-- @include retrying.lua
-- @include held_back.lua

local hash, zset = KEYS[1], KEYS[2]
local id, cut = ARGV[1], ARGV[2]

local stored = queue(hash)
if not stored then
  return queue_not_found(hash)
end
local score = redis.call('ZSCORE', zset, id)
local fields = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
if not score or not fields[1] or is_reserved(id) then
  return false
end
local now = server_time_ms()
local failures = errors_of(zset, hash, {id}, {tonumber(score) > now and fields[2]})
add_groups(zset, hash, {id}, failures)
local body = cut == '' and fields[1] or string.sub(fields[1], 1, tonumber(cut))
return {body, fields[2], fields[3], score, digits(now), stored[1], shown_of(zset, {id}), failures[1], #fields[1]}
