#!lua
-- Reports for how long this node has known the birth of a node (itself or another), and which token
-- that node has to be taught. Only this node's clock counts, so a clock that jumps on the other
-- node does not end its quarantine.
-- KEYS seen node
-- ARGV 1 the birth  2 for how long, at least, it is known to have been there
--      3 whether to remember it (1), or only to look (0)
-- → {now, counts, µs since then, the largest token it knows of, origin} | {-1}

local BIRTH = '@birth@'
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local node = call('HMGET', KEYS[2], 'birth', 'counts', 'ceiling', 'origin', 'least', 'max')
if node[1] ~= BIRTH then
  return {-1}
end
local seen = tonumber(call('ZSCORE', KEYS[1], ARGV[1]) or nil)
if not seen or seen > now then -- or the clock was set back
  -- A node that counts is not new. A client that still takes it for new was suspended in the
  -- meantime, and believing it would end the quarantine of a node that was emptied a moment ago.
  seen = node[2] == '1' and now or now - tonumber(ARGV[2])
  if ARGV[3] == '1' then
    call('ZADD', KEYS[1], string.format('%.0f', seen), ARGV[1])
  end
end
if ARGV[3] == '1' then
  -- While clients keep asking, the birth is remembered until the quarantine is over, however long
  -- that takes.
  call('PEXPIRE', KEYS[1], string.format('%.0f', 2 * tonumber(node[6]) / 1000 + 86400000))
end
-- Pass on the token that this node was taught, even if it has granted none so large, because the
-- nodes that taught it may have forgotten since.
local largest = math.max(tonumber(node[3]) or 0, tonumber(node[5]) or 0)
return {now, tonumber(node[2]), now - seen, largest, node[4]}
