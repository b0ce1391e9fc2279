#!lua
-- Lets this node count, from now on and for all clients, and grant only tokens above the taught one.
-- KEYS seen node
-- ARGV 1 the largest token known to the nodes that teach it
-- → {0, counts} | {-1}

local BIRTH = '@birth@'
local node = redis.call('HMGET', KEYS[2], 'birth', 'least')
if node[1] ~= BIRTH then
  return {-1}
end
local least = math.max(tonumber(node[2]) or 0, tonumber(ARGV[1]))
redis.call('HSET', KEYS[2], 'counts', '1', 'least', string.format('%.0f', least))
return {0, 1}
