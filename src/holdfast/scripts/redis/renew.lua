#!lua flags=allow-oom
-- Sets the deadline anew, if the claim still holds; never brings back what has ended.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 ttl
-- → 1 renewed, 0 lost, 2 broken

-- include opening.lua

local known = open(1, ARGV[1])
local ends = known and tonumber(call('ZSCORE', ENDS, ARGV[1]))
local holds = ends and ends > now and string.sub(known, 1, 1) == 'H'
if holds then
  call('ZADD', ENDS, int(now + ARGV[2]), ARGV[1])
end
if holds and arrivals == 0 then
  if outlive(now + ARGV[2]) then
    call('HSET', DOOR, 'keep', int(keep))
    for i = 1, 5 do
      call('PEXPIREAT', KEYS[i], int(keep))
    end
  end
  return 1
end

-- include door.lua

if holds then
  outlive(now + ARGV[2])
  dirty = true
end
settle()
local place = find(ARGV[1])
save()
if holds then
  return 1
end
return place and place.standing == 'B' and 2 or 0
