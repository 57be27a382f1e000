-- Staged messages with options.
-- @include packed.lua
-- @include optional_sends.lua

-- Sends messages with packed options, as send_with_options.lua does. `keys` has the keys of its options, in its order. Returns
-- how many were added; or nil and the refusal, and then nothing is changed.
local function publish_with_options(hash, zset, keys, send, packed, us)
  local options = read_options(packed)
  send.hash, send.zset, send.options, send.us, send.now = hash, zset, options, us, math.floor(us / 1000)
  send.records, send.unique = options.dedup_ids and keys[1] or hash, options.unique_keys and keys[2] or hash
  send.limits = (options.expires or options.max_retries) and keys[3] or hash
  send.rates = options.rate_interval and keys[4] or hash
  local refusal = plan_send(send)
  if refusal then
    return nil, refusal
  end
  begin_send(send)
  finish_send(send)
  return send.added
end
