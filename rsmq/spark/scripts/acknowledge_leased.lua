-- Deletes the messages of a part of a batch whose receipts are still valid, and the receipts of the part. Messages behind
-- one of their group whose receipt is not are left.
-- Stores the number of the batch as acknowledged, with what its offset counts, even if the part does not exist.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] leases    hash        receipts by stream, batch and part
-- KEYS[4] acked     hash        the last acknowledged batch of each query, as in fragments/acknowledged.lua
-- ARGV[1] stream    string      name of the stream
-- ARGV[2] batch     integer     number of the batch
-- ARGV[3] part      integer     number of the part
-- ARGV[4] lifetime  integer     ms until the number of the batch is deleted
-- ARGV[5] query     string      the query's name in `acked`
-- ARGV[6] counts    string      JSON of what the offset of the batch counts in each queue; empty = as stored
-- ARGV[7] latest    integer     ms from which the next messages of their groups are due, so that a stream that receives
--                               only what was due at its start receives them too; '' = now
--
-- returns {number of deleted messages, number of messages that another consumer has received since, or
--         that are behind such ones}
-- errors  none: without the queue or the part there is nothing to delete
-- source  none in Node; each message is deleted as npm rsmq 0.12.4 deleteMessage deletes it
-- @include time_ms.lua
-- @include due.lua
-- @include full.lua
-- @include variadic.lua
-- @include leases.lua
-- @include acknowledged.lua
-- @include leaving.lua

local hash, zset, leases, acked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, batch, part, lifetime, query, counts = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local latest = ARGV[7]

allow_removal(zset, hash)
note_acknowledged(acked, query, tonumber(batch), lifetime, nil, counts)
part = stream .. ':' .. batch .. ':' .. part
local ids, counts, packed = receipts_of(leases, part)
if not ids then
  return {0, 0}
end
local leased, lost = still_leased(hash, zset, ids, counts)
local given_up
leased, given_up = with_their_groups(ids, leased, packed)
redis.call('HDEL', leases, part)
local removed = 0
for at = 1, #leased, 4000 do
  removed = removed + redis.call('ZREM', zset, unpack(leased, at, math.min(at + 3999, #leased)))
end
variadic('HDEL', hash, fields_of(leased))
note_left(zset, hash, leased, latest ~= '' and math.min(latest, server_time_ms()) or nil)
return {removed, lost + given_up}
