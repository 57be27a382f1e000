-- Cancels a flow: nothing more of it is sent but finally, and the jobs of the nodes that were sent are cancelled.
--
-- KEYS[1] key       hash     the flow, as in fragments/flows.lua
-- ARGV[1] lifetime  integer  ms for which the record of a job that ends here lives
--
-- returns cancelled if nothing of it runs any more, requested if consumers have messages of it, the state of a flow that
--         had ended before; nil if there is none
-- errors  none
-- source  none in Node; messages are removed as npm rsmq 0.12.4 deleteMessage does
-- @include full.lua
-- @include cancelling.lua
-- @include flows.lua
-- @include jobs.lua

local key = KEYS[1]
local lifetime = ARGV[1]

redis.call('HDEL', key, '') -- allows the other writes when memory is full
local flow = open_flow(key, change_job)
if not flow then
  return redis.call('HGET', key, 'state')
end
stop_flow(flow, 'cancelled')
for number = 0, redis.call('HGET', key, 'nodes') - 1 do
  local id = string.match(redis.call('HGET', key, number .. ':s') or '', '^sent (.+)$')
  if id and tostring(number) ~= flow.finally then
    local _, _, queue = read_node(flow, number)
    local zset = flow.namespace .. ':' .. queue
    allow_removal(zset, zset .. ':Q')
    cancel_job(zset .. ':Q', zset, zset .. ':x:job:' .. id, id, flow.now, lifetime, '1')
  end
end
if redis.call('HGET', key, 'state') == 'running' then
  send_nodes(flow, {})
end
local left = redis.call('HMGET', key, 'state', 'sent')
return left[1] ~= 'running' and left[1] or left[2] == '0' and 'cancelled' or 'requested'
