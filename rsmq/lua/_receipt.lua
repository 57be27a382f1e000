-- Id and receive count are the receipt of a message: every receive, by any client, changes the
-- count.

-- Whether the message is in the queue with another receive count than the receipt's.
local function received_since(hash, zset, id, count)
  return redis.call('HGET', hash, id .. ':rc') ~= count and redis.call('ZSCORE', zset, id)
end
