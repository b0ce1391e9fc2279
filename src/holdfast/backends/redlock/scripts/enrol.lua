#!lua
-- Knows the process that serves here by an id of its own, its birth: whoever comes first names it.
-- A process that has not been known before may lack what was granted, whatever its data say: it
-- does not count until it was admitted, unless its operator vouches for what it keeps.
-- KEYS node
-- ARGV 1 run_id  2 a birth, if it needs one  3 max_ttl  4 whether its data are durable (1, 0)
-- → {birth, counts, max_ttl, origin: new where nothing was known here, again where something was}

local known = redis.call('HMGET', KEYS[1], 'format', 'birth', 'run', 'counts', 'max', 'origin')
if known[1] and known[1] ~= '1' then
  error({err = 'HOLDFAST_FORMAT ' .. known[1]})
end
if not known[2] then
  redis.call('HSET', KEYS[1], 'format', '1', 'birth', ARGV[2], 'run', ARGV[1], 'counts', '0',
    'max', ARGV[3], 'origin', 'new')
  return {ARGV[2], 0, tonumber(ARGV[3]), 'new'}
end
if known[3] == ARGV[1] or known[5] ~= ARGV[3] then
  return {known[2], tonumber(known[4]), tonumber(known[5]), known[6]}
end
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[1], 'run', ARGV[1])
  return {known[2], tonumber(known[4]), tonumber(known[5]), known[6]}
end
redis.call('HSET', KEYS[1], 'birth', ARGV[2], 'run', ARGV[1], 'counts', '0', 'origin', 'again')
return {ARGV[2], 0, tonumber(known[5]), 'again'}
