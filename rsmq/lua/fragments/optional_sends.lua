-- Sends with options:
--   dedup_ids, unique_keys, groups   for each message its own; '' = without it. A group is as in groups.lua
--   dedup_window                     ms for which a second send with a dedup_id adds nothing
--   replace                          1 = replace the message that has the unique_key, unless it was received
--   max_wait                         ms after its first send by which a replaced message is visible
--   expires                          ms after which the messages expire
--   max_retries                      their own number of retries, instead of that of the policy
--   track                            1 = new and replaced messages get a record, as in jobs.lua
--   rate_interval                    microseconds between the messages with the same of the rate_keys
--   rate_keys                        for each message its group or limit key, as in groups.lua
-- A send is a table with the keys and arguments of send_with_options.lua by name: hash, zset, records,
-- unique, limits and rates; largest, delay, suffixes and channel; options, as packed.lua returns them; and arguments, of
-- which those after the first `before` are the bodies. It also has the server's time: us, and now in ms. Functions of an
-- option are in blocks, so that a call makes only those that it needs, once.
-- @include sending.lua
-- @include id.lua
-- @include storing.lua
-- @include unique.lua
-- @include local_keys.lua
-- @include was_received.lua

-- Reads the queue into the fields of a send, and what its options have stored. Returns the refusal of its messages, or
-- nothing.
local function find_queue(send)
  local hash, zset, options, now = send.hash, send.zset, send.options, send.now
  local stored, wait = sendable(hash, send.largest, send.delay, now, 'created', 'x:limited', 'x:groups', 'x:named',
    'x:rated')
  if not stored then
    return wait
  end
  send.wait, send.created, send.is_limited = wait, stored[4], stored[5]
  send.is_grouped, send.is_named, send.is_rated = stored[6], stored[7], stored[8]
  if options.expires or options.max_retries or options.replace then
    -- @include limiting.lua
    send.change_limits, send.limits_record = change_limits, limits_record
    send.drops_limits = may_drop_limits(send.limits, hash, zset, options.replace, send.is_limited)
    local refusal = refusal_of_expiry(wait, options.expires or '')
    if refusal then
      return refusal
    end
  end
  if options.track then
    require_local_beside(zset, ':x:job:')
  end
  send.sent = {}
  if options.dedup_ids then
    -- @include dedup.lua
    send.forget, send.remember, send.prolong = forget, remember, prolong
    for each, name in ipairs(options.dedup_ids) do
      send.sent[each] = name ~= '' and sent_before(send.records, name, send.created, send.is_named, now)
    end
  end
  if options.groups then
    -- @include grouping.lua
    send.remove_free_groups, send.store_groups = remove_free_groups, store_groups
    require_local_groups(zset, send.suffixes)
  end
end

-- Returns the score of a message that is replaced, or nothing if it keeps its score.
local function new_score(send, id, score)
  if string.sub(id, -2) == 'Gr' then
    -- @include held_back.lua
    if due_of_held_back(send.zset, send.hash, id) then
      return
    end
  end
  return not send.options.rate_interval
    and score_when_replaced(send.zset, id, send.delay, score, send.now, send.options.max_wait or '')
end

-- Puts the times of their keys in place of the scores of new messages. Returns the refusal of all messages, or nothing.
local function take_turns(send, score)
  -- @include rates.lua
  send.store_turns = store_turns
  local interval, of_messages = send.options.rate_interval, {}
  for each, group in ipairs(send.options.rate_keys) do
    of_messages[send.ids[each]] = group
  end
  for at = 2, #send.members, 2 do
    local group = of_messages[send.members[at]]
    send.members[at - 1] = take_turn(send.rates, send.times, group, interval, score, send.is_rated)
  end
  return refusal_of_rate(send.times, interval, send.now)
end

-- Decides for each message whether it is added, replaces an earlier one, or gives way to it. Changes nothing. Adds to
-- the send: fields and members, what to write of the messages; named, keyed, groups and times, what to write of their
-- options; ids, of the messages in the places of all; earlier_ids, those that were there before, else ''; and added, the
-- number of new ones. Returns the refusal of all messages, or nothing.
local function plan_send(send)
  local refusal = find_queue(send)
  if refusal then
    return refusal
  end
  local hash, zset, unique, suffixes, options = send.hash, send.zset, send.unique, send.suffixes, send.options
  local names, unique_keys, of_groups = options.dedup_ids or {}, options.unique_keys or {}, options.groups or {}
  local score, time = score_of(zset, send.delay, send.now, send.wait), base36(send.us)
  local fields, members, named, keyed, groups = {}, {}, {}, {}, {} -- named and keyed have message ids
  local ids, earlier_ids, added = {}, {}, 0
  for each = 1, #send.arguments - send.before do
    local body, name, key = send.arguments[send.before + each], names[each] or '', unique_keys[each] or ''
    local sent = name ~= '' and (named[name] or send.sent[each])
    local id = sent or key ~= '' and (keyed[key] or holder_of(unique, key, hash, zset))
    if id and not sent and options.replace then
      id = not was_received(hash, id) and id
      put(fields, id, body)
      put(members, id and new_score(send, id, score), id)
    end
    earlier_ids[each], send.is_repeated = id or '', send.is_repeated or sent
    if not id then
      id, added = time .. string.sub(suffixes, 22 * each - 21, 22 * each), added + 1
      put(fields, id, body)
      put(members, score, id)
      groups[id] = of_groups[each] ~= '' and of_groups[each] or nil
    end
    ids[each], named[sent and '' or name], keyed[sent and '' or key] = id, id, id
  end
  named[''], keyed[''] = nil, nil
  send.time, send.fields, send.members, send.groups, send.times = time, fields, members, groups, {}
  send.named, send.keyed, send.ids, send.earlier_ids, send.added = named, keyed, ids, earlier_ids, added
  return options.rate_interval and take_turns(send, score)
end

-- Fails, before any change of a message, if memory is full or the user lacks a right, and publishes the notification.
local function begin_send(send)
  local hash, zset, options, number = send.hash, send.zset, send.options, #send.ids
  begin_storing(zset, send.channel, send.added, #send.fields == 0) -- in the order of send_message.lua
  if options.track then
    -- @include job_rights.lua
    require_job_rights(zset)
  end
  if next(send.groups) then
    send.remove_free_groups(zset, send.groups, number)
  end
  if options.dedup_ids then
    send.forget(send.records, send.named, number, hash, send.is_named, send.now, options.dedup_window)
  end
  remove_free_keys(send.unique, send.keyed, number, zset)
  if options.rate_interval then
    send.store_turns(send.rates, send.times, hash, send.is_rated, send.us, number)
  end
end

-- Writes what plan_send has decided.
local function finish_send(send)
  local hash, zset, options, now, fields = send.hash, send.zset, send.options, send.now, send.fields
  if send.change_limits then
    send.change_limits(send.limits, hash, zset, send.drops_limits, send.is_limited, #send.ids, fields,
      send.limits_record(options.max_retries or '', options.expires or '', now))
  end
  if next(send.groups) then
    send.store_groups(zset, hash, send.groups, send.members, now, send.is_grouped)
  end
  store_messages(hash, zset, fields, send.members, send.added)
  hold_keys(send.unique, send.keyed)
  if options.track then
    -- @include tracking.lua
    track_sent(zset, fields, options.replace, send.wait, now)
  end
  if options.dedup_ids then
    send.remember(send.records, send.named, send.created, now, options.dedup_window)
    send.prolong(send.records, options.dedup_window, send.is_repeated and not next(send.named) and not next(send.keyed))
  end
end
