#!lua flags=allow-oom
-- Sets the deadline anew, if the claim still holds; never brings back what has ended.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 ttl
-- → 1 renewed, 0 lost, 2 broken

-- include opening.lua

local known = open(1, ARGV[1])
local later = now + span(ARGV[2])
if solo then
  local claim, ends, record = string.match(solo, '^(%S+) (%d+) (.*)$')
  if claim == ARGV[1] and tonumber(ends) > now then
    call('HSET', DOOR, 'solo', claim .. ' ' .. int(later) .. ' ' .. record)
    outlive_solo(later)
    return 1
  end
end

-- include door.lua

known = unfold(ARGV[1]) or known
local ends = known and tonumber(call('ZSCORE', ENDS, ARGV[1]))
local holds = ends and ends > now and string.match(known, '^[HA]')
if holds then
  if holds == 'A' then
    put('#' .. ARGV[1], 'H' .. string.sub(known, 2))
  end
  call('ZADD', ENDS, int(later), ARGV[1])
  outlive(later)
  dirty = true
end
settle()
local place = find(ARGV[1])
save()
if holds then
  return 1
end
return place and place.standing == 'B' and 2 or 0
