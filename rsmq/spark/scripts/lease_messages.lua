-- Receives due messages for a stream, hides them as receive_messages.lua does, and stores their receipts as a
-- part of a batch of the stream. If the part exists already, changes nothing. For a batch that was acknowledged,
-- receives nothing: the query has gone back to an older checkpoint. For a process whose stream another one has
-- taken over, receives nothing either.
--
-- KEYS[1] hash        hash        the queue's attributes, bodies and counters
-- KEYS[2] zset        sorted set  the queue's message ids
-- KEYS[3] leases      hash        receipts by stream, batch and part; for a batch the ms when it is
--                                 deleted, and the sizes of its parts
-- KEYS[4] acked       hash        the last acknowledged batch of each query, as in fragments/acknowledged.lua
-- ARGV[1] stream      string      name of the stream
-- ARGV[2] number      integer     number of the batch
-- ARGV[3] part        integer     number of the part, from 0
-- ARGV[4] most        integer     the most messages to receive
-- ARGV[5] room        integer     the most bytes of bodies
-- ARGV[6] vt          integer     ms to hide them
-- ARGV[7] latest      integer     ms: receives only messages that became visible until then; '' = now
-- ARGV[8] lifetime    integer     ms until the receipts are deleted
-- ARGV[9] namespace   string      first part of the keys of a dead-letter queue
-- ARGV[10] target     string      the dead-letter queue; '' = the queue's policy applies
-- ARGV[11] limit      integer     receive count at which a message is moved there
-- ARGV[12] query      string      the query's name in `acked`
-- ARGV[13] holder     string      id of the process
-- ARGV[14] first      string      '1': the body of the first message may be larger than `room`
-- ARGV[15] extends    string      '1': the next messages of their groups too, as in fragments/extending.lua
--
-- returns {number of messages in the part, bytes of their bodies, 1 if there may be more due messages, else 0,
--         the ms until when they are hidden}; the bytes are -1 if the part exists already, and the last 0; the
--         bytes are `room` if not even one body fits
-- errors  QUEUENOTFOUND, LEASETAKENOVER, BATCHACKNOWLEDGED
-- source  none in Node; it writes to the queue what npm rsmq 0.12.4 receiveMessage writes
-- @include time_ms.lua
-- @include digits.lua
-- @include queue.lua
-- @include full.lua
-- @include dead_letters.lua
-- @include lifetime.lua
-- @include storing_part.lua
-- @include highest.lua
-- @include acknowledged.lua
-- @include due_many.lua
-- @include expired.lua

local hash, zset, leases, acked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, number, part, most, room = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local vt, latest, lifetime = ARGV[6], ARGV[7], ARGV[8]
local namespace, target, limit, query, holder = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local first, extends = ARGV[14], ARGV[15]

local stored = queue(hash, 'x:dlq', 'x:max', 'x:keep', 'x:limited', 'x:throttle')
if not stored then
  return queue_not_found(hash)
end
local last, stored_holder = highest_of(acked, query)
if (stored_holder or holder) ~= holder then
  return redis.error_reply('LEASETAKENOVER ' .. stream)
end
local batch = stream .. ':' .. number
local sizes = redis.call('HGET', leases, batch)
sizes = sizes and cmsgpack.unpack(sizes) or {0}
if sizes[part + 2] then
  return {sizes[part + 2], -1, 1, 0}
end
if last and last >= tonumber(number) then
  return redis.error_reply('BATCHACKNOWLEDGED ' .. stream .. ' ' .. number .. ' ' .. digits(last))
end
allow_removal(zset, hash)
local has_own = target ~= ''
local dead = policy(namespace, zset, has_own and target or stored[4], has_own and limit or stored[5], stored[7])

local now = server_time_ms()
local to = latest == '' and now or math.min(now, latest)
local in_order, follows = extends == '1' or stored[7] and stored[7] ~= '1', nil
local of = {hash = hash, zset = zset, dead = dead, limited = stored[7],
  expires = expiry(namespace, zset, hash, stored[6], stored[7])}
most, room = tonumber(most), tonumber(room)
of.due = due_messages(zset, hash, to, most, room, first == '1', dead, of.expires, stored[8], false, in_order)
local size = of.due.size -- also `room`, if the next body does not fit
local full = of.due.number == most or size >= room or of.due.cleared >= 1000
if of.due.number > 0 then
  keep_for(leases, lifetime) -- fails for a user without the right, before anything is changed
  if not stored_holder then
    note_acknowledged(acked, query, last or 0, lifetime, holder)
  end
  if extends == '1' then
    -- @include rows.lua
    local is_cut
    is_cut, follows = receive_rows(of, most, room, to)
    full = full or is_cut
    deliver_rows(of, now, digits(now + vt))
  else
    deliver(hash, zset, of.due, digits(now), digits(now + vt))
  end
  size = store_part(leases, batch, part, sizes, of.due, now, lifetime, follows)
end
if of.due.cleared > 0 and not full then -- the next ones of their groups
  full = redis.call('ZRANGEBYSCORE', zset, '-inf', digits(to), 'LIMIT', '0', '1')[1]
end
return {of.due.number, size, full and 1 or 0, now + vt}
