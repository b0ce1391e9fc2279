-- Reads a door: what every verb does first. The keys of a name stand together in KEYS:
--   door  hash: format, capacity, token (the last given), keep (when the keys vanish, ms), used (the
--         weight inside), arrivals (only while somebody waits), #<claim>: its record,
--         @<client>: the record of a client that waits
--   ends  zset: who is inside, by deadline       line  zset: who waits, by arrival
--   gone  zset: tombstones, by deadline          kin   zset: the claims of explicit owners
-- Times are µs of the server's clock. A number becomes text by int(): tostring() rounds.
local FORMAT = '1'
local DAY, HOUR = 86400000, 3600000
local call = redis.call
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local DOOR, ENDS, LINE, GONE, KIN
local capacity, token, keep, kept, used, arrivals

local function int(number)
  return string.format('%.0f', number)
end

-- → the claim's record as it was found, or false
local function open(first, claim)
  DOOR, ENDS, LINE, GONE, KIN = unpack(KEYS, first, first + 4)
  local found = call('HMGET', DOOR, 'format', 'capacity', 'token', 'keep', 'used', 'arrivals', '#' .. claim)
  if found[1] and found[1] ~= FORMAT then
    error({err = 'HOLDFAST_FORMAT ' .. found[1]})
  end
  capacity, token, keep = tonumber(found[2]) or 0, tonumber(found[3]) or 0, tonumber(found[4]) or 0
  kept, used, arrivals = found[4], tonumber(found[5]) or 0, tonumber(found[6]) or 0
  return found[7]
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
