#!lua flags=allow-oom
-- Sets a new deadline if the claim still holds; never brings back what has ended. Given
-- a client and an owner, it hands the hold over to them.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 ttl  3 client and owner, for a hand-over only
-- → 1 renewed, 0 lost, 2 broken

-- include opening.lua

local known = open(1, ARGV[1])
local later = now + span(ARGV[2])
-- → the new record, or false: if two clients adopt a hold that has no client, the first gets it
local function handed_over(record)
  if not ARGV[3] then
    return record
  end
  local head, client = string.match(record, '^(%a %d+ %d+ %d+ %d+ %d+ %d+ %S+ )(%S+) ')
  local adopter = string.match(ARGV[3], '^(%S+) ')
  return (client == '-' or adopter == '-' or client == adopter) and head .. ARGV[3]
end

if solo then
  local claim, ends, record = string.match(solo, '^(%S+) (%d+) (.*)$')
  if claim == ARGV[1] and tonumber(ends) > now then
    record = handed_over(record)
    if not record then
      return 0
    end
    call('HSET', DOOR, 'solo', claim .. ' ' .. int(later) .. ' ' .. record)
    outlive_solo(later)
    return 1
  end
end

-- include door.lua

known = unfold(ARGV[1]) or known
local ends = known and tonumber(call('ZSCORE', ENDS, ARGV[1]))
local holds = ends and ends > now and string.match(known, '^[HA]')
local record = holds and handed_over(known)
holds = holds and record and holds
if holds then
  if holds == 'A' or ARGV[3] then
    put('#' .. ARGV[1], 'H' .. string.sub(record, 2))
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
