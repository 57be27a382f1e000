-- Releases a stream of a holder that stops, so that another one can acquire it at once.
--
-- KEYS[1] leases  hash    receipts by stream, batch and part; for a stream its holder, and the ms until when
-- ARGV[1] stream  string  name of the stream
-- ARGV[2] holder  string  id of the process that has acquired it
--
-- returns 1; 0 if this holder does not have it
-- errors  none
-- source  none in Node

local leases = KEYS[1]
local stream, holder = ARGV[1], ARGV[2]

local stored = redis.call('HGET', leases, stream)
if not stored or cmsgpack.unpack(stored)[1] ~= holder then
  return 0
end
return redis.call('HDEL', leases, stream)
