-- Reads a door: what every verb does first. The keys of a name stand together in KEYS:
--   door  hash: format, capacity, token (the last given), keep (when the keys vanish, ms), used (the
--         weight inside), arrivals (only while somebody waits), gone (only while there are
--         tombstones), doubt (who was not heard since then and waits is dead), epoch (the last given
--         to a client that waits), lost (clients of this epoch or an earlier one have lost their
--         places), #<claim>: its record, @<client>: the record of a client that waits,
--         solo: <claim> <deadline> <record> of one who came in while nobody else was here
--   ends  zset: who is inside, by deadline       line  zset: who waits, by arrival
--   gone  zset: tombstones, by deadline          kin   zset: the claims of explicit owners
-- Most locks are held by one and wanted by nobody else. Such a hold is the field solo and
-- nothing more; whoever finds it in the way unfolds it first, into what door.lua works on.
-- The server may evict any of these keys and keep the others. So no verb believes a count (used,
-- arrivals, gone, a client's `waiting`, a party's weight in kin) where a refusal or a grant rests on
-- it without looking at what it counts, and a client that lost its places learns so from its next
-- heartbeat.
-- Times are µs of the server's clock. A number becomes text by int(): tostring() rounds.
local FORMAT = '1'
local DAY, HOUR = 86400000, 3600000
local LONGEST = 604800000000 -- a week, as in options.py
local call = redis.call
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local DOOR, ENDS, LINE, GONE, KIN
local asked, found, capacity, token, keep, used, arrivals, solo, last_epoch, lost

local function int(number)
  return string.format('%.0f', number)
end

-- Whoever asks for more gets the longest: a moment too far off to be counted would make the
-- server refuse in the middle of a verb, and leave keys without an end.
local function span(text)
  return math.min(tonumber(text), LONGEST)
end

-- → the claim's record as it was found, or false
local function open(first, claim)
  DOOR, ENDS, LINE, GONE, KIN = unpack(KEYS, first, first + 4)
  asked = claim
  found = call('HMGET', DOOR, 'format', 'capacity', 'token', 'keep', 'used', 'arrivals', 'gone', 'solo', '#' .. claim,
    'epoch', 'lost')
  if found[1] and found[1] ~= FORMAT then
    error({err = 'LOCKFAST_FORMAT ' .. found[1]})
  end
  capacity, token, keep = tonumber(found[2]) or 0, tonumber(found[3]) or 0, tonumber(found[4]) or 0
  used, arrivals, solo = tonumber(found[5]) or 0, tonumber(found[6]) or 0, found[8]
  last_epoch, lost = tonumber(found[10]) or 0, tonumber(found[11]) or 0
  return found[9]
end

-- A name's keys outlive by a day its last token and whatever else ends: told by the token,
-- not by the last use, or a clock that once jumped ahead would let tokens fall. Given an
-- hour more than needed, so that a busy name seldom has to say it again.
local function outlive(moment)
  local needed = math.ceil(moment / 1000) + DAY
  if needed <= keep then
    return false
  end
  keep = needed + HOUR
  return true
end

local function is_empty()
  return not solo and used == 0 and arrivals == 0
end

-- The same for a solo hold, whose door is all there is.
local function outlive_solo(moment)
  if outlive(moment) then
    call('HSET', DOOR, 'format', FORMAT, 'keep', int(keep))
    call('PEXPIREAT', DOOR, int(keep))
    call('PEXPIREAT', GONE, int(keep))
  end
end

-- What is left over if the server evicted the door alone: nobody is known by it any more.
local function clear_leftovers()
  if keep == 0 then
    call('UNLINK', ENDS, LINE, GONE, KIN)
  end
end

-- Lets one in where nobody is → its token. The way of an uncontended lock.
local function enter_solo(claim, size, details)
  clear_leftovers()
  -- Texts are made once: turning a number into one costs as much as a command.
  local since, ends = int(now), now + span(string.match(details, '^%d+ (%d+) '))
  local given = token < now and since or int(token + 1)
  token = math.max(token + 1, now)
  call('HSET', DOOR, 'capacity', size, 'token', given,
    'solo', claim .. ' ' .. int(ends) .. ' H ' .. since .. ' ' .. given .. ' ' .. details)
  outlive_solo(math.max(token, ends))
  return token
end
