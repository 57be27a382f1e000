-- Id and receive count are the receipt of a message: every receive, by any client, changes the
-- count.

-- Whether the message is in the queue with another receive count than the receipt's; a bare id
-- (count '') fits any. Reads the hash in any case: a key of another type fails here.
local function received_since(hash, zset, id, count)
  local stored = redis.call('HGET', hash, id .. ':rc')
  return count ~= '' and stored ~= count and redis.call('ZSCORE', zset, id)
end
