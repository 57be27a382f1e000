-- Streams of Spark, which keep the receipts of their batches beside a queue: PROTOCOL.md has their form.
-- @include local_keys.lua

-- Returns {stream, number of the batch} of the stream that has received a message last, as far as it has not acknowledged it; of
-- the first 500 parts of batches. The receive count of the message is 1, or is in the receipts.
local function stream_of(zset, id, count)
  local leases, asked = zset .. ':x:leases', 0
  require_local('EXISTS', zset, leases)
  local fields = redis.pcall('HKEYS', leases)
  for _, field in ipairs(fields.err and {} or fields) do
    local stream, number = string.match(field, '^(.*):(%d+):%d+$')
    asked = asked + (stream and 1 or 0)
    local packed = stream and asked <= 500 and redis.call('HGET', leases, field)
    if packed and string.find(packed, id, 1, true) then
      local _, ids, again = unpack(cmsgpack.unpack(packed))
      local received = '1'
      for place, each in ipairs(ids) do
        for at = 1, each == id and #again or 0, 3 do
          received = again[at] == place and string.format('%.0f', again[at + 1]) or received
        end
      end
      if received == count then
        return {stream, number}
      end
    end
  end
  return false
end
