-- The nodes of flows of tasks. A flow is the hash NS:x:flow:ID. Its own fields are state, nodes (their number), policy
-- (stop or continue), finally (the number of this node, or ''), ends (the numbers of the nodes that no other one follows,
-- with commas), unsucceeded (how many of these, and of finally, have not succeeded), stopped (failed or cancelled, if no
-- further node is sent), task (of the first node), queues (of all nodes, as JSON), channel (what is before a queue's name in its channel, or ''), ttl, sent_at and ended_at, and how
-- many nodes have each state; and declared, the number of nodes of its send, if nodes have been added. A node has a number, from 0, and the fields
--   N:d  'DELAY SUFFIX AFTER LENGTH QUEUEBODY': ms or '', the end of its id, the nodes before it, the length of the queue's
--        name; in the body \1N\1 is the result of a node
--   N:t  the nodes after it, with commas, and at the end + if its result is stored
--   N:n  how many of the nodes before it have not ended
--   N:s  its state and the id of its message; missing while it is pending
--   N:r, N:e  its result; the error that it has failed with
-- @include digits.lua
-- @include id.lua
-- @include sending.lua
-- @include time_us.lua
-- @include totals.lua
-- @include utf16.lua

-- Returns the state of a node after an event: send, refuse, or the state in which its job has ended. Returns nothing if
-- the event changes nothing. A pending node of a flow that is stopped is skipped.
local function next_node_state(state, event)
  if state == 'pending' then
    return event == 'send' and 'sent' or event == 'refuse' and 'failed' or nil
  elseif state == 'sent' and (event == 'succeeded' or event == 'failed' or event == 'cancelled' or event == 'expired') then
    return event
  end
end

-- Returns a flow, by its key, or nothing if it does not run. `change` is change_job of jobs.lua, which includes this.
local function open_flow(key, change)
  local found = redis.call('HMGET', key, 'state', 'policy', 'finally', 'stopped', 'channel', 'ttl')
  if found[1] == 'running' then
    local us = server_time_us()
    return {key = key, namespace = string.sub(key, 1, -31), id = string.sub(key, -22), policy = found[2],
      finally = found[3], stopped = found[4], channel = found[5], ttl = found[6], us = us, now = math.floor(us / 1000),
      change = change}
  end
end

-- Changes the state of a node. Returns its new state, or nothing if it keeps its state.
local function change_node(flow, number, state, event, id)
  local after = next_node_state(state, event)
  if after then
    redis.call('HSET', flow.key, number .. ':s', id and after .. ' ' .. id or after)
    redis.call('HINCRBY', flow.key, state, '-1')
    redis.call('HINCRBY', flow.key, after, '1')
  end
  return after
end

-- Returns whether a flow has a node finally that is still pending.
local function is_finally_pending(flow)
  return flow.finally ~= '' and not redis.call('HGET', flow.key, flow.finally .. ':s')
end

-- Sends no further nodes but finally.
local function stop_flow(flow, reason)
  if not flow.stopped then
    local pending, kept = redis.call('HGET', flow.key, 'pending'), is_finally_pending(flow) and 1 or 0
    flow.stopped = reason
    redis.call('HSET', flow.key, 'stopped', reason, 'pending', kept, 'skipped', digits(pending - kept))
  end
end

-- Returns the name of the task in the body of a node.
local function task_of(body)
  return string.match(body, '^{"task":"(.-)"') or '?'
end

-- Returns the parts of the definition of a node: the ms of its delay or '', the end of its id, its queue and its body.
local function read_node(flow, number)
  local delay, suffix, length, rest = string.match(redis.call('HGET', flow.key, number .. ':d'),
    '^(%d*) (%w+) [%d,]* (%d+) (.*)$')
  return delay, suffix, string.sub(rest, 1, length), string.sub(rest, length + 1)
end

-- Sends the message of a node, with its record. Returns its id, or nil and why it is refused.
local function send_node(flow, number)
  local delay, suffix, queue, template = read_node(flow, number)
  local names, zset = {}, flow.namespace .. ':' .. queue
  local body = string.gsub(template, '\1(%d+)\1', function(before)
    local _, _, _, other = read_node(flow, before)
    names[#names + 1] = task_of(other)
    return redis.call('HGET', flow.key, before .. ':r') or 'null'
  end)
  local hash, size = zset .. ':Q', utf16_size(body)
  local stored, wait = sendable(hash, size, delay, flow.now)
  if not stored then
    local largest = string.match(wait.err, '^MESSAGETOOLONG %d+ (%d+)')
    return nil, largest and 'MessageTooLong: task ' .. task_of(template) .. ' with the results of '
      .. table.concat(names, ', ') .. ' has ' .. size .. ' characters, and queue ' .. queue .. ' takes ' .. largest
      or 'Queue ' .. queue .. ': ' .. wait.err
  end
  redis.call('ZADD', zset, 'XX', '0', '\0none') -- fails without the right, or on a key of another type
  if flow.channel ~= '' then
    redis.call('PUBLISH', flow.channel .. queue, redis.call('ZCARD', zset) + 1)
  end
  local id = base36(flow.us) .. suffix
  flow.change(zset .. ':x:job:' .. id, 'send', nil, '', wait, 'flow', flow.key .. ' ' .. number)
  add_to(hash, 'totalsent', 1)
  redis.call('HSET', hash, id, body)
  redis.call('ZADD', zset, digits(flow.now + wait), id)
  return id
end

-- Ends a flow if nothing is left of it, or sends finally. Returns the numbers of the nodes to send.
local function end_flow(flow)
  local left = redis.call('HMGET', flow.key, 'pending', 'sent', 'unsucceeded')
  local is_last = is_finally_pending(flow)
  if left[2] ~= '0' or left[1] ~= (is_last and '1' or '0') then
    return {}
  elseif is_last then
    return {flow.finally}
  end
  local state = flow.stopped == 'cancelled' and flow.stopped or left[3] == '0' and 'succeeded' or 'failed'
  redis.call('HSET', flow.key, 'state', state, 'ended_at', digits(flow.now))
  redis.call('PEXPIRE', flow.key, flow.ttl)
  redis.call('ZREM', flow.namespace .. ':x:due', 'flow:' .. flow.id)
  return {}
end

-- Returns the numbers of the nodes that nothing keeps from being sent, after a node has ended.
local function nodes_after(flow, number, state)
  local ready, links = {}, redis.call('HGET', flow.key, number .. ':t')
  if state == 'succeeded' and not string.find(links, '%d') then
    redis.call('HINCRBY', flow.key, 'unsucceeded', '-1')
  elseif state ~= 'succeeded' and flow.policy == 'stop' and number ~= flow.finally then
    stop_flow(flow, 'failed')
  end
  for other in string.gmatch(flow.stopped and '' or links, '%d+') do
    if redis.call('HINCRBY', flow.key, other .. ':n', '-1') == 0 then
      ready[#ready + 1] = other
    end
  end
  return ready
end

-- Sends the nodes of these numbers, and ends the flow if nothing is left. One that is refused has failed, and those after
-- it are sent too.
local function send_nodes(flow, ready)
  repeat
    local at = 1
    while ready[at] do
      local number = ready[at]
      local is_run, id, refusal = true, nil, nil
      if not flow.stopped or number == flow.finally then
        is_run, id, refusal = pcall(send_node, flow, number)
      end
      if is_run and id then
        change_node(flow, number, 'pending', 'send', id)
      elseif not is_run or refusal then
        refusal = refusal or type(id) == 'table' and id.err or tostring(id)
        redis.call('HSET', flow.key, number .. ':e', string.sub(refusal, 1, 500))
        change_node(flow, number, 'pending', 'refuse')
        for _, other in ipairs(nodes_after(flow, number, 'failed')) do
          ready[#ready + 1] = other
        end
      end
      at = at + 1
    end
    ready = end_flow(flow)
  until #ready == 0
end

-- Counts a node whose job has ended, once, and sends the nodes that wait for nothing more. `place` is the key of the flow,
-- a blank and the number of the node; the job has a record with this key.
local function end_node(place, record, state, change)
  local key, number = string.match(place, '^(.*) (%d+)$')
  local flow, id = open_flow(key, change), string.sub(record, -32)
  if not flow or redis.call('HGET', key, number .. ':s') ~= 'sent ' .. id then
    return
  end
  local found = redis.call('HMGET', record, 'result', 'error')
  change_node(flow, number, 'sent', state, id)
  if state == 'succeeded' and string.sub(redis.call('HGET', key, number .. ':t'), -1) == '+' then
    redis.call('HSET', key, number .. ':r', found[1] or 'null')
  elseif state ~= 'succeeded' and found[2] then
    redis.call('HSET', key, number .. ':e', found[2])
  end
  send_nodes(flow, nodes_after(flow, number, state))
end
