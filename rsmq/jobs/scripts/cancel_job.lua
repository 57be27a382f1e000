-- Cancels a job. Its message is removed, unless a consumer has it: then its record asks the worker to cancel it.
--
-- KEYS[1] hash      hash        the queue's attributes, bodies and counters
-- KEYS[2] zset      sorted set  the queue's message ids
-- KEYS[3] record    hash        the record of the message, as in fragments/jobs.lua; made if there is none
-- ARGV[1] lifetime  integer     ms for which the record of a job that ends here lives
-- ARGV[2] id        string      the id of the message
-- ARGV[3] obeyed    string      '1' if a consumer that has the message may obey; '' = none does
--
-- returns cancelled, requested, running if none obeys, the state of a job that had ended before; nil if there is neither
--         a record nor a message
-- errors  none
-- source  none in Node; the message is removed as npm rsmq 0.12.4 deleteMessage does
-- @include time_ms.lua
-- @include full.lua
-- @include cancelling.lua

local hash, zset, record = KEYS[1], KEYS[2], KEYS[3]
local lifetime, id, obeyed = ARGV[1], ARGV[2], ARGV[3]

allow_removal(zset, hash)
return cancel_job(hash, zset, record, id, server_time_ms(), lifetime, obeyed)
