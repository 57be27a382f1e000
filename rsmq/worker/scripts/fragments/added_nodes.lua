-- The nodes that a node adds to its flow. They come packed: each text after its length and a blank. A node has four texts:
-- the fields d, t and n of flows.lua, with numbers from 0 on, and '1' if the nodes after the adding one wait for it. In its
-- body, \2N\2 is its own number.
-- @include digits.lua
-- @include flows.lua
-- @include queue.lua
-- @include variadic.lua

local function unpack_texts(packed)
  local texts, at = {}, 1
  while at <= #packed do
    local _, last, length = string.find(packed, '^(%d+) ', at)
    texts[#texts + 1], at = string.sub(packed, last + 1, last + length), last + length + 1
  end
  return texts
end

-- Returns a list of numbers with another one, or others, at its end.
local function join(numbers, others)
  return numbers .. (numbers ~= '' and others ~= '' and ',' or '') .. others
end

-- Adds nodes after a node whose message is settled, unless the flow is stopped or counts that node no more. They wait for
-- it. Returns why they are refused; then nothing is changed.
local function add_nodes(key, number, id, packed)
  local flow, texts = open_flow(key), unpack_texts(packed)
  if not flow or flow.stopped or redis.call('HGET', key, number .. ':s') ~= 'sent ' .. id then
    return
  end
  local first = tonumber(redis.call('HGET', key, 'nodes'))
  local total = first + #texts / 4
  if total > 10000 then
    return redis.error_reply('INVALIDVALUE nodes ' .. digits(total))
  end
  local function shift(text)
    return digits(first + text)
  end
  local followers, stored = string.match(redis.call('HGET', key, number .. ':t'), '^([%d,]*)(%+?)$')
  local fields, direct, waits, ends = {}, '', '', 0
  local queues, is_used = cjson.decode(redis.call('HGET', key, 'queues') or '[]'), {}
  for _, name in ipairs(queues) do
    is_used[name] = true
  end
  for other = first, total - 1 do
    local at = 4 * (other - first)
    local begin, after, length, rest = string.match(texts[at + 1], '^(%d* %w+) ([%d,]*) (%d+) (.*)$')
    local links, kept = string.match(texts[at + 2], '^([%d,]*)(%+?)$')
    local name = string.sub(rest, 1, length)
    local hash = flow.namespace .. ':' .. name .. ':Q'
    if not queue(hash) then
      return queue_not_found(hash)
    elseif not is_used[name] then
      queues[#queues + 1], is_used[name] = name, true
    end
    links = string.gsub(links, '%d+', shift)
    if after == '' then
      direct = join(direct, digits(other))
    end
    if texts[at + 4] == '1' then
      links, waits = join(links, followers), join(waits, digits(other))
    end
    ends = ends + (links == '' and 1 or 0)
    local body = string.gsub(string.sub(rest, length + 1), '\2(%d+)\2', shift)
    body = string.gsub(body, '\1(%d+)\1', function(before)
      return '\1' .. shift(before) .. '\1'
    end)
    local place, last = digits(other), #fields
    local before = after == '' and number or string.gsub(after, '%d+', shift)
    fields[last + 1], fields[last + 2] = place .. ':d', begin .. ' ' .. before .. ' ' .. length .. ' '
      .. name .. body
    fields[last + 3], fields[last + 4] = place .. ':t', links .. kept
    fields[last + 5], fields[last + 6] = place .. ':n', after == '' and '1' or texts[at + 3]
  end
  local _, waited = string.gsub(waits, '%d+', '')
  for other in string.gmatch(waited > 0 and followers or '', '%d+') do
    local begin, after, rest = string.match(redis.call('HGET', key, other .. ':d'), '^(%d* %w+) ([%d,]*) (.*)$')
    redis.call('HSET', key, other .. ':d', begin .. ' ' .. join(after, waits) .. ' ' .. rest)
    redis.call('HINCRBY', key, other .. ':n', waited)
  end
  variadic('HSET', key, fields)
  redis.call('HSETNX', key, 'declared', digits(first))
  redis.call('HSET', key, 'queues', cjson.encode(queues), 'nodes', digits(total), number .. ':t', join(followers, direct) .. stored)
  redis.call('HINCRBY', key, 'pending', digits(total - first))
  redis.call('HINCRBY', key, 'unsucceeded', digits(ends - (followers == '' and 1 or 0)))
end
