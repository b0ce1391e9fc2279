#!lua
-- Identifies the process that serves here by its birth, an id that its first client assigns. A
-- process that was not known before may have lost grants, whatever its data say, so it does not
-- count until it is admitted, unless its operator vouches for its data.
-- KEYS node
-- ARGV 1 run_id  2 a birth, if it needs one  3 max_ttl  4 whether its data are durable (1, 0)
--      5 the number of nodes  6 what may be written: 0 nothing, 1 that a node with the
--      client's terms was restarted, 2 also the client's terms where there are none
-- → {birth (empty if it needs one that may not be written), counts, max_ttl, origin (new if
--   nothing was known here, otherwise again), the number of nodes, whether its data are durable,
--   whether terms are missing (1, 0)}

local known = redis.call('HMGET', KEYS[1], 'format', 'birth', 'run', 'counts', 'max', 'origin',
  'nodes', 'durable')
if known[1] and known[1] ~= '1' then
  error({err = 'LOCKFAST_FORMAT ' .. known[1]})
end
local may_write = tonumber(ARGV[6])
if not known[2] and may_write < 2 then
  return {'', 0, tonumber(ARGV[3]), 'new', tonumber(ARGV[5]), tonumber(ARGV[4]), 1}
end
if not known[2] then
  redis.call('HSET', KEYS[1], 'format', '1', 'birth', ARGV[2], 'run', ARGV[1], 'counts', '0',
    'max', ARGV[3], 'origin', 'new', 'nodes', ARGV[5], 'durable', ARGV[4])
  return {ARGV[2], 0, tonumber(ARGV[3]), 'new', tonumber(ARGV[5]), tonumber(ARGV[4]), 0}
end
-- Use the stored term, to which all clients agreed before this process was started. If the term of
-- a single client counted, it would end the quarantine for the others too, which do not trust a
-- file that may be older.
local is_vouched_for = known[8] == '1'
-- To change these three terms, an operator deletes them while no client uses the node. What the
-- node remembers of locks and tokens stays.
local agrees, lacks, has_max = true, 0, known[5]
for _, term in ipairs({{5, 'max', ARGV[3]}, {7, 'nodes', ARGV[5]}, {8, 'durable', ARGV[4]}}) do
  local i, name, said = unpack(term)
  if not known[i] then
    known[i] = said
    if may_write == 2 then
      redis.call('HSET', KEYS[1], name, said)
    else
      lacks = 1
    end
  end
  agrees = agrees and known[i] == said
end
local birth, counts, origin = known[2], tonumber(known[4]), known[6]
if lacks == 1 and not has_max then
  birth, counts = '', 0
elseif agrees and known[3] ~= ARGV[1] and may_write == 0 then
  -- Do not return the old birth. With its scripts, clients would take the new process for the one
  -- that they know.
  if not is_vouched_for then
    birth, counts, origin = '', 0, 'again'
  end
elseif agrees and known[3] ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'run', ARGV[1])
  if not is_vouched_for then
    birth, counts, origin = ARGV[2], 0, 'again'
    redis.call('HSET', KEYS[1], 'birth', birth, 'counts', '0', 'origin', origin)
  end
end
return {birth, counts, tonumber(known[5]), origin, tonumber(known[7]), tonumber(known[8]), lacks}
