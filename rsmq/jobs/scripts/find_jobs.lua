-- Finds records of the tracked messages of a queue: one step of SCAN over the keys of the database. Changes nothing.
--
-- KEYS[1] hash       hash        the queue's attributes, bodies and counters
-- KEYS[2] zset       sorted set  the queue's message ids
-- ARGV[1] cursor     string      the cursor of SCAN, '0' at the start
-- ARGV[2] pattern    bytes       the pattern of the keys of its records
-- ARGV[3] keys       integer     about how many keys of the database the step looks at
-- ARGV[4] state      string      the state that is looked for; '' = any
--
-- returns {the next cursor, '0' at the end, and the ids}
-- errors  none
-- source  none in Node
-- @include time_ms.lua
-- @include job_state.lua

local hash, zset = KEYS[1], KEYS[2]
local cursor, pattern, keys, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local now, ids = server_time_ms(), {}
local found = redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', keys)
for _, key in ipairs(found[2]) do
  local id, is_wanted = string.sub(key, #zset + 8), state == ''
  if not is_wanted then
    local record = redis.call('HMGET', key, 'state', 'receives')
    is_wanted = record[1] and job_state(hash, zset, id, record[1], record[2], now) == state
  end
  if is_wanted then
    ids[#ids + 1] = id
  end
end
return {found[1], ids}
