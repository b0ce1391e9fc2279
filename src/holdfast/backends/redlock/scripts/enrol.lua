#!lua
-- Knows the process that serves here by an id of its own, its birth: whoever comes first names it.
-- A process that has not been known before may lack what was granted, whatever its data say: it
-- does not count until it was admitted, unless its operator vouches for what it keeps.
-- KEYS node
-- ARGV 1 run_id  2 a birth, if it needs one  3 max_ttl  4 whether its data are durable (1, 0)
--      5 of how many nodes it is one
-- → {birth, counts, max_ttl, origin: new where nothing was known here, again where something was,
--   of how many nodes it is one}

local known =
  redis.call('HMGET', KEYS[1], 'format', 'birth', 'run', 'counts', 'max', 'origin', 'nodes')
if known[1] and known[1] ~= '1' then
  error({err = 'HOLDFAST_FORMAT ' .. known[1]})
end
if not known[2] then
  redis.call('HSET', KEYS[1], 'format', '1', 'birth', ARGV[2], 'run', ARGV[1], 'counts', '0',
    'max', ARGV[3], 'origin', 'new', 'nodes', ARGV[5])
  return {ARGV[2], 0, tonumber(ARGV[3]), 'new', tonumber(ARGV[5])}
end
-- An operator deletes these two to have others, while no client is there: what the node remembers
-- of locks and tokens stays.
for i, name in pairs({[5] = 'max', [7] = 'nodes'}) do
  if not known[i] then
    known[i] = i == 5 and ARGV[3] or ARGV[5]
    redis.call('HSET', KEYS[1], name, known[i])
  end
end
local birth, counts, origin = known[2], tonumber(known[4]), known[6]
local agrees = known[5] == ARGV[3] and known[7] == ARGV[5]
if agrees and known[3] ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'run', ARGV[1])
  if ARGV[4] ~= '1' then
    birth, counts, origin = ARGV[2], 0, 'again'
    redis.call('HSET', KEYS[1], 'birth', birth, 'counts', '0', 'origin', origin)
  end
end
return {birth, counts, tonumber(known[5]), origin, tonumber(known[7])}
