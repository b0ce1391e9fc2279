#!lua
-- Grants, or says who is in the way; a repeat keeps its place, or its hold with a new deadline.
-- KEYS door ends line gone kin
-- ARGV 1 claim  2 capacity  3 inbox, empty if it joins no line
--      4 weight ttl delay hold party client owner, as the record keeps them
-- → token | {0, capacity in use}: another one | {now, place or 0, epoch or 0, more, inside...}

-- include opening.lua

local known = open(1, ARGV[1])
local weight, ttl = string.match(ARGV[4], '^(%d+) (%d+) ')
if not known and used == 0 and arrivals == 0 then
  -- Nobody here: the way of an uncontended lock, before the rest is even defined.
  if keep == 0 then
    call('UNLINK', ENDS, LINE, GONE, KIN) -- left over if the server evicted the door alone
  end
  -- Texts are made once: turning a number into one costs as much as a command.
  local since, ends = int(now), now + ttl
  local given = token < now and since or int(token + 1)
  token = math.max(token + 1, now)
  if outlive(math.max(token, ends)) then
    kept = int(keep)
    call('HSET', DOOR, 'format', FORMAT, 'keep', kept)
    call('PEXPIREAT', GONE, kept)
  end
  call('HSET', DOOR, 'capacity', ARGV[2], 'token', given, 'used', weight,
    '#' .. ARGV[1], 'H ' .. since .. ' ' .. given .. ' ' .. ARGV[4])
  call('PEXPIREAT', DOOR, kept)
  call('ZADD', ENDS, int(ends), ARGV[1])
  call('PEXPIREAT', ENDS, kept)
  local party = string.match(ARGV[4], '^%d+ %d+ %d+ %d+ (%x+) ')
  if party then
    call('ZADD', KIN, 0, party .. 'i' .. string.format('%010d', weight) .. ARGV[1])
    call('PEXPIREAT', KIN, kept)
  end
  return token
end

-- include door.lua

local asking = place_of(ARGV[1], 'W 0 0 ' .. ARGV[4])
if known and ARGV[3] ~= '' then
  hear(asking.client, ARGV[3]) -- it speaks: not void for its silence
end
settle()

local place = find(ARGV[1])
if place and place.standing == 'W' and (is_void(place) or not call('ZSCORE', LINE, place.id)) then
  drop(place)
  place = nil
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
  local is_waiting = call('EXISTS', LINE) == 1
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
    place = asking
  end
end

local rank, epoch = 0, 0
if place and place.standing == 'W' then
  rank, epoch = call('ZRANK', LINE, place.id) + 1, place.since
end
save()
return {now, rank, epoch, more and 1 or 0, unpack(inside())}
