#!lua flags=allow-oom
-- Sets a new deadline if the claim still has the name; never brings back what has ended.
-- KEYS hold buried waiting node
-- ARGV 1 claim  2 ttl
-- → {now, counts, 1 renewed, 0 lost, 2 broken} | {-1}

-- include opening.lua

if held and held.claim == ARGV[1] then
  held.ends = now + tonumber(ARGV[2])
  write()
  outlive(held.ends)
  return {now, counts, 1}
end
local stone = found[7] and call('HGET', HOLD, '#' .. ARGV[1])
return {now, counts, stone and string.sub(stone, 1, 1) == 'B' and 2 or 0}
