#!lua
-- Grants, or says who is in the way; a repeat keeps its place, or its hold with a new deadline.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 capacity  3 inbox, empty if it joins no line
--      4 weight ttl delay hold party client owner, as the record keeps them
-- → token | {0, capacity in use}: another one
--   | {now, place or 0, epoch or 0, the last token given to anybody, inside...}

-- include opening.lua

local known = open(1, ARGV[1])
local party = string.match(ARGV[4], '^%d+ %d+ %d+ %d+ (%S+) ')
if not known and party == '-' and is_empty() then
  return enter_solo(ARGV[1], ARGV[2], ARGV[4]) -- before the rest is even defined
end

-- include door.lua

known = unfold(ARGV[1]) or known
local asking = place_of(ARGV[1], 'W 0 0 ' .. ARGV[4])
local ttl = asking.ttl
if known and ARGV[3] ~= '' then
  hear(asking.client, ARGV[3]) -- it speaks: not void for its silence
end
settle()

local place = find(ARGV[1])
local rank, epoch = 0, 0
if place and place.standing == 'W' then
  rank, epoch = (call('ZRANK', LINE, place.id) or -1) + 1, place.since
  if rank == 0 or is_void(place) then
    drop(place)
    place, rank, epoch = nil, 0, 0
  end
end

if place and (place.standing == 'H' or place.standing == 'A') then
  -- The deadline is set anew in the same step: the claimant counts its trust from this
  -- request, so the store must count from it too.
  if place.standing == 'A' then
    place.standing, place.since = 'H', now
    write(place)
  end
  call('ZADD', ENDS, int(now + ttl), place.id)
  outlive(now + ttl)
  dirty = true
  let_kin_pass(place.party)
  save()
  return place.token
end

if not place then
  local is_waiting = somebody_waits()
  if tonumber(ARGV[2]) ~= capacity then
    if used > 0 or is_waiting then
      save()
      return {0, capacity}
    end
    capacity = tonumber(ARGV[2])
  end
  local held = asking.party == '-' and 0 or heaviest(asking.party)
  if (held > 0 and asking.weight <= held) or (not is_waiting and asking.weight - held <= capacity - used) then
    enter(asking, 'H', now + ttl)
    let_kin_pass(asking.party)
    save()
    return asking.token
  end
  if ARGV[3] ~= '' then
    join(asking, ARGV[3])
    rank, epoch = call('ZRANK', LINE, asking.id) + 1, asking.since
  end
end

save()
return {now, rank, epoch, token, unpack(inside())}
