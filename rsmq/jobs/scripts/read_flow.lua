-- Reads a flow and some of its nodes. Before, nodes whose messages have left their queues without an outcome end, if the
-- user may write, unless the call only reads.
--
-- KEYS[1] key         hash     the flow, as in fragments/flows.lua
-- ARGV[1] only_reads  string   '1' if nothing is written
-- ARGV[2] chosen      string   the nodes to return: all, ends or none
-- ARGV[3] most        integer  the number of nodes that are checked at most: others in each second
--
-- returns nil if there is no flow; else the values of its fields, as in fragments/flow_fields.lua, the number of the node
--         finally, and for each of the nodes its number, state, id, definition, result and error, each may be nil
-- errors  none
-- source  none in Node
-- @include checking.lua
-- @include digits.lua
-- @include flow_fields.lua
-- @include flows.lua
-- @include jobs.lua
-- @include time_us.lua

local key = KEYS[1]
local only_reads, chosen, most = ARGV[1], ARGV[2], ARGV[3]
local flow = open_flow(key, change_job)
if flow and only_reads == '' then
  local total, first = tonumber(redis.call('HGET', key, 'nodes')), 0
  if total > tonumber(most) then -- a stored place would wake those that wait for a change of the flow
    first = math.floor(flow.now / 1000) % math.ceil(total / most) * most
  end
  pcall(check_nodes, flow, first, math.min(first + most, total) - 1)
end
local values = fields_of_flow(key)
if not values[1] then
  return nil
end
local own = redis.call('HMGET', key, 'finally', 'stopped', 'ends')
local numbers, nodes = {}, {}
if chosen == 'all' then
  for number = 0, values[2] - 1 do
    numbers[#numbers + 1] = number
  end
else
  for number in string.gmatch(chosen == 'ends' and own[3] or '', '%d+') do
    numbers[#numbers + 1] = number
  end
end
local all = {key = key, namespace = string.sub(key, 1, -31)}
local now = math.floor(server_time_us() / 1000)
for at, number in ipairs(numbers) do
  local state, id = state_of_node(all, number, now)
  if state == 'pending' and own[2] and tostring(number) ~= own[1] then
    state = 'skipped'
  end
  local found = redis.call('HMGET', key, number .. ':d', number .. ':r', number .. ':e')
  nodes[at] = {digits(number), state, id, found[1], found[2], found[3]}
end
return {values, own[1], nodes}
