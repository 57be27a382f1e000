-- Returns the names of all listed queues.
--
-- KEYS[1] queues  set  the names of all queues
--
-- returns an array of names, in no order; empty without queues
-- errors  none
-- source  npm rsmq 0.12.4 listQueues

local queues = KEYS[1]

return redis.call('SMEMBERS', queues)
