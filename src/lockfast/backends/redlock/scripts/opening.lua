-- What every verb does first, on one of the nodes. Keys:
--   hold  hash: format, token (the last granted), keep (when the keys expire, ms), hold: the claim
--         that has the name here, shut: until when it stays closed after that, and after whom,
--         turn: the claim that was woken last and goes first for a moment, gone (only while there
--         are tombstones), #<claim>: its tombstone
--   buried  zset: tombstones, by deadline   waiting  zset: claims to wake, by when they began to wait
--   node  hash, one for all names: birth, run, counts, least, ceiling, max, nodes, durable, origin;
--         see enrol.lua
-- Times are µs of the node's clock. A number becomes text through int(): tostring() rounds.
local BIRTH = '@birth@'
local FORMAT = '1'
local DAY, HOUR = 86400000, 3600000
local TOMBSTONE, TURN = 60000000, 50000
local HOLD, BURIED, WAITING, NODE = unpack(KEYS)
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function int(number)
  return string.format('%.0f', number)
end

-- A node that was flushed has forgotten its birth along with what it granted.
local node = call('HMGET', NODE, 'birth', 'counts', 'least', 'ceiling', 'max')
if node[1] ~= BIRTH then
  return {-1}
end
local counts, longest = tonumber(node[2]), tonumber(node[5])

local found = call('HMGET', HOLD, 'format', 'token', 'keep', 'hold', 'shut', 'turn', 'gone')
if found[1] and found[1] ~= FORMAT then
  error({err = 'LOCKFAST_FORMAT ' .. found[1]})
end
local token, keep = tonumber(found[2]) or 0, tonumber(found[3]) or 0

-- A record: claim attempt since ends token min_hold owner. If a deadline is further off than it can
-- have been set, the clock was set back. The deadline then counts again from now, and the holder
-- stops trusting its hold before the new deadline. The new deadline is not stored here, because
-- some verbs must not write. An acquire that it refuses stores it, for a hold and for what stays
-- closed after one; see acquire.lua.
local held, shut
if found[4] then
  local claim, attempt, since, ends, given, min_hold, owner =
    string.match(found[4], '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  held = {
    claim = claim, attempt = tonumber(attempt), since = tonumber(since), ends = tonumber(ends),
    token = tonumber(given), min_hold = tonumber(min_hold), owner = owner,
  }
  if held.ends > now + longest then
    held.since, held.ends, held.is_cut = now, now + longest, true
  end
  if held.ends <= now then
    if held.min_hold > 0 and held.since + held.min_hold > now then
      shut = {ends = held.since + held.min_hold, owner = held.owner}
    end
    held = nil
  end
end
if not held and found[5] then
  local ends, owner = string.match(found[5], '^(%d+) (.*)$')
  shut = {ends = tonumber(ends), owner = owner}
end
if shut then
  if shut.ends > now + longest then
    shut.ends, shut.is_cut = now + longest, true
  end
  if shut.ends <= now then
    shut = nil
  end
end

-- A name's keys outlive its last token and all its deadlines by a day; see the scripts of the Redis
-- backend.
local function outlive(moment)
  local needed = math.ceil(moment / 1000) + DAY
  if needed > keep then
    keep = needed + HOUR
    call('HSET', HOLD, 'format', FORMAT, 'keep', int(keep))
    call('PEXPIREAT', HOLD, int(keep))
  end
end

local function write()
  call('HSET', HOLD, 'hold', held.claim .. ' ' .. int(held.attempt) .. ' ' .. int(held.since) .. ' '
    .. int(held.ends) .. ' ' .. int(held.token) .. ' ' .. int(held.min_hold) .. ' ' .. held.owner)
end

-- No token of any name that this node has ever known is above its ceiling. The ceiling is set a
-- second ahead, so that it need not be written for each token.
local function lift(given)
  if given > (tonumber(node[4]) or 0) then
    call('HSET', NODE, 'ceiling', int(given + 1000000))
  end
end
