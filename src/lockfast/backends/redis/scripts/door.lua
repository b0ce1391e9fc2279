-- The steps that the verbs share. The rules are those of core/door.py, but nothing here walks the
-- whole line. At most STEPS claims end or move up in one call; `more` says that some are left for
-- the next request.
local WINDOW, TOMBSTONE = 2500000, 60000000 -- as in core/door.py
local PATIENCE, OVERDUE = 7000000, 2500000 -- a client that is silent this long is dead, or in doubt
local GLANCE = 60000000
local STEPS, SHOWN = 16, 16
local steps, more = STEPS, false

-- State of the open door. A Redis call costs more than everything else, so each field is read only
-- once, and all changed fields are written together at the end.
local fields, changed, clients
local dirty, made, was_left, is_lined, has_gone, before

local function begin()
  fields, changed, clients = {['#' .. asked] = found[9]}, {}, {}
  dirty, made, was_left, is_lined, more = false, {}, false, nil, false
  has_gone = found[7] and true
  before = {capacity, token, keep, used, arrivals, last_epoch, lost, has_gone}
end

if found then
  begin()
end

local function get(field)
  local text = fields[field]
  if text == nil then
    text = call('HGET', DOOR, field)
    fields[field] = text
  end
  return text
end

local function put(field, text)
  fields[field], changed[field], dirty = text, true, true
end

-- A record: standing since token weight ttl delay hold party client owner. Standings are H(olding),
-- A(dmitted), C(losing), W(aiting), G(one), B(roken). For a waiting claim, `since` is the epoch of
-- its client; once the client has another epoch, the claim is void. It has no token yet, so `token`
-- is its time of arrival.
local RECORD = '^(%a) (%d+) (%d+) ((%d+) (%d+) (%d+) (%d+) (%S+) (%S+) .*)$'

local function place_of(claim, text)
  if not text then
    return nil
  end
  local standing, since, given, details, weight, ttl, delay, hold, party, client = string.match(text, RECORD)
  return {
    id = claim, standing = standing, since = tonumber(since), token = tonumber(given),
    details = details, weight = tonumber(weight), ttl = span(ttl), delay = span(delay),
    hold = span(hold), party = party, client = client,
  }
end

local function find(claim)
  return place_of(claim, get('#' .. claim))
end

local function write(place)
  put('#' .. place.id,
    place.standing .. ' ' .. int(place.since) .. ' ' .. int(place.token) .. ' ' .. place.details)
end

local function erase(place)
  put('#' .. place.id, false)
end

-- The server evicted the line, or a key that the line depends on. The clients of all claims in it
-- learn this from their next heartbeat, and join again.
local function lose_line()
  if is_lined ~= false then
    call('UNLINK', LINE)
  end
  last_epoch = math.max(last_epoch, now)
  lost, arrivals, is_lined, dirty = last_epoch, 0, false, true
end

-- `arrivals` is positive only while claims wait. If the line is missing although no claim has left
-- it in this call, it was evicted. Otherwise the last claim may have left it.
local function somebody_waits()
  if arrivals > 0 and is_lined == nil then
    is_lined = call('EXISTS', LINE) == 1
    if not is_lined and not was_left then
      lose_line()
    end
  end
  return arrivals > 0 and is_lined
end

local function save_clients()
  for name, client in pairs(clients) do
    if client.is_changed then
      put('@' .. name, client.waiting > 0 and client.epoch > lost and
        int(client.epoch) .. ' ' .. int(client.heard) .. ' ' .. int(client.waiting) .. ' ' .. client.inbox)
    end
  end
end

local function save_fields()
  local set, cut = {}, {}
  for field in pairs(changed) do
    if fields[field] then
      set[#set + 1], set[#set + 2] = field, fields[field]
    else
      cut[#cut + 1] = field
    end
  end
  local names = {'capacity', 'token', 'keep', 'used', 'arrivals', 'epoch', 'lost'}
  for i, value in ipairs({capacity, token, keep, used, arrivals, last_epoch, lost}) do
    if value ~= before[i] then
      set[#set + 1], set[#set + 2] = names[i], int(value)
    end
  end
  if has_gone and not before[8] then
    set[#set + 1], set[#set + 2] = 'gone', '1'
  elseif before[8] and not has_gone then
    cut[#cut + 1] = 'gone'
  end
  if not found[1] then
    set[#set + 1], set[#set + 2] = 'format', FORMAT
  end
  if #set > 0 then
    call('HSET', DOOR, unpack(set))
  end
  if #cut > 0 then
    call('HDEL', DOOR, unpack(cut))
  end
end

local function save()
  if not dirty then
    return
  end
  save_clients()
  outlive(math.max(token, now))
  if not somebody_waits() then
    arrivals = 0
    if fields['doubt'] then
      put('doubt', false)
    end
  end
  save_fields()
  -- Keys created in this call have no expiry yet; the others have theirs.
  for _, key in ipairs({DOOR, ENDS, LINE, GONE, KIN}) do
    if made[key] or keep ~= before[3] then
      call('PEXPIREAT', key, int(keep))
    end
  end
end

-- Explicit owners, called `party`. Members of kin: party (32 digits), i(nside) with its weight or
-- w(aiting), claim. The claims of one explicit owner are one hold, so they count once and share a
-- token.

local function kin_key(place)
  return place.party .. 'i' .. string.format('%010d', place.weight) .. place.id
end

-- → the explicit owner's weight inside, and one of its claims there
local function heaviest(party)
  for _ = 1, STEPS do
    local last = call('ZREVRANGEBYLEX', KIN, '(' .. party .. 'j', '[' .. party .. 'i', 'LIMIT', 0, 1)[1]
    if not last then
      break
    end
    local claim = string.sub(last, 44)
    if call('ZSCORE', ENDS, claim) then
      return tonumber(string.sub(last, 34, 43)), claim
    end
    -- The claim inside was evicted, so its weight is no longer counted. If kin still listed it, its
    -- owner would be let in alongside others.
    call('ZREM', KIN, last)
  end
  return 0, nil
end

-- Whether another claim of the same explicit owner holds, so that the hold goes on without this
-- one.
local function party_stays(place)
  if place.party == '-' then
    return false
  end
  local members = call('ZRANGEBYLEX', KIN, '[' .. place.party .. 'i', '(' .. place.party .. 'j', 'LIMIT', 0, SHOWN)
  for _, member in ipairs(members) do
    local other = find(string.sub(member, 44))
    if other and other.id ~= place.id and other.standing == 'H' then
      return true
    end
  end
  return false
end

-- Inside: holding, admitted or closing. A hold that is over no longer has an explicit owner.

local function come_in(place, ends)
  made[ENDS] = made[ENDS] or used == 0
  call('ZADD', ENDS, int(ends), place.id)
  outlive(ends)
  if place.party == '-' or place.standing == 'C' then
    used = used + place.weight
    return
  end
  local weight = heaviest(place.party)
  made[KIN] = true
  call('ZADD', KIN, 0, kin_key(place))
  used = used + math.max(0, place.weight - weight)
end

local function go_out(place)
  local counts_alone = place.party == '-' or place.standing == 'C'
  local weight = counts_alone and place.weight or heaviest(place.party)
  if call('ZREM', ENDS, place.id) == 0 then
    return -- evicted, so it is no longer counted, and another may have been let in since
  end
  if not counts_alone then
    call('ZREM', KIN, kin_key(place))
    weight = weight - heaviest(place.party)
  end
  used = used - weight
end

local function bury(place, standing)
  place.standing = standing
  write(place)
  local ends = now + math.max(place.ttl, TOMBSTONE)
  has_gone, made[GONE] = true, true
  call('ZADD', GONE, int(ends), place.id)
  outlive(ends)
end

local function token_for(place)
  if place.party ~= '-' then
    local _, other = heaviest(place.party)
    if other then
      return find(other).token
    end
  end
  token = math.max(token + 1, now)
  return token
end

local function enter(place, standing, ends)
  place.token = token_for(place)
  place.standing, place.since = standing, now
  write(place)
  come_in(place, ends)
end

-- The line. A client that waits has a record: epoch heard waiting inbox. `waiting` counts its
-- claims in the line, void ones too; the record is deleted with the last of them.

local function client_of(name)
  local client = clients[name]
  if not client then
    local text = get('@' .. name)
    if not text then
      return nil
    end
    local epoch, heard, waiting, inbox = string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
    client = {name = name, epoch = tonumber(epoch), heard = tonumber(heard), waiting = tonumber(waiting), inbox = inbox}
    clients[name] = client
  end
  return client.waiting > 0 and client.epoch > lost and client or nil
end

local function keep_client(client)
  dirty, client.is_changed, clients[client.name] = true, true, client
end

-- Epochs only grow, even when the clock is set back, because a client learns from a different epoch
-- that it lost its places.
local function next_epoch()
  last_epoch = math.max(last_epoch + 1, now)
  return last_epoch
end

-- Inboxes are numbered as they are opened. A late request that was sent before the last inbox was
-- opened must not divert the client's wakeups to one that nobody listens to any more.
local function number_of(inbox)
  return tonumber(string.match(inbox, '^(%d+)%.')) or 0
end

local function listens(client, inbox)
  client.heard = now
  if not client.inbox or number_of(inbox) >= number_of(client.inbox) then
    client.inbox = inbox
  end
  keep_client(client)
end

local function hear(name, inbox)
  local client = client_of(name)
  if client then
    listens(client, inbox)
  end
  return client
end

local function join(place, inbox)
  if not somebody_waits() then
    arrivals, made[LINE] = 0, true
  end
  arrivals, is_lined = arrivals + 1, true
  local client = client_of(place.client) or {name = place.client, epoch = next_epoch(), waiting = 0}
  client.waiting = client.waiting + 1
  listens(client, inbox)
  call('ZADD', LINE, int(arrivals), place.id)
  if place.party ~= '-' then
    made[KIN] = true
    call('ZADD', KIN, 0, place.party .. 'w' .. place.id)
  end
  place.standing, place.since, place.token = 'W', client.epoch, now
  write(place)
end

-- → the client, even if this was the last of its claims in the line
local function leave_line(place)
  local client = client_of(place.client)
  local was_there = call('ZREM', LINE, place.id) == 1
  local was_kin = place.party == '-' or call('ZREM', KIN, place.party .. 'w' .. place.id) == 1
  if not was_there then
    return client -- the line was evicted since it joined, so it is not counted
  end
  was_left, is_lined = true, nil
  if client then
    client.waiting = client.waiting - 1
    keep_client(client)
  end
  if not was_kin then
    -- kin was evicted, so other claims of this owner may be stuck behind claims that wait for it.
    lose_line()
  end
  return client
end

local function drop(place)
  if place.standing == 'W' then
    leave_line(place)
  elseif place.standing == 'G' or place.standing == 'B' then
    call('ZREM', GONE, place.id)
  else
    go_out(place)
  end
  erase(place)
end

local function ring(client, message)
  -- The message is only a hint, so a user that may not publish must not fail in the middle of a
  -- verb.
  redis.pcall('PUBLISH', string.match(DOOR, '^[^{]*') .. 'inbox:' .. client.inbox, message)
end

-- Voids all claims of the client here. If the client is alive, it is notified, now and in the reply
-- to its next heartbeat, and joins again.
local function dismiss(client)
  client.epoch = next_epoch()
  keep_client(client)
  ring(client, '*' .. DOOR)
end

-- Handles an admission window that ran out unanswered. The client is dead or frozen, and each of
-- its claims here would stall the line for another window, so all of them become void. Clients that
-- died along with it must not cost a window each either. Heartbeats come more often than windows
-- end, so a client that was not heard while the window ran counts as dead. A client that was only
-- late is notified, and joins again.
local function turn_away(place)
  put('doubt', int(math.max(tonumber(get('doubt') or 0), place.since)))
  local client = client_of(place.client)
  if client then
    dismiss(client)
  end
end

local function is_void(place)
  local client = client_of(place.client)
  if not client or place.since ~= client.epoch then
    return true
  end
  local silent = math.abs(now - client.heard)
  return silent > PATIENCE or (silent >= OVERDUE and client.heard <= tonumber(get('doubt') or 0))
end

-- The message contains the token. If a claim's last reply had a smaller token, the claim was
-- admitted after that reply, so it holds for an admission window counted from the request of that
-- reply.
local function admit(place)
  local client = leave_line(place)
  enter(place, 'A', now + WINDOW)
  ring(client, place.id .. ' ' .. int(place.token))
end

-- The other claims of an explicit owner pass wherever they are in line, because an owner that waits
-- for itself would wait for ever. At most SHOWN pass at once; each of them calls this again when it
-- answers.
local function let_kin_pass(party)
  if party == '-' then
    return
  end
  local limit = heaviest(party)
  local members = call('ZRANGEBYLEX', KIN, '[' .. party .. 'w', '(' .. party .. 'x', 'LIMIT', 0, SHOWN)
  for _, member in ipairs(members) do
    local place = find(string.sub(member, 34))
    if place and place.standing == 'W' and place.since <= lost then
      drop(place) -- otherwise it would take up room in `members` ahead of claims still in line
    elseif place and limit > 0 and place.weight <= limit and not is_void(place) then
      admit(place)
    end
  end
end

-- Ends a hold; its weight stays closed until `closed`, under an id that no request has.
local function finish(place, closed)
  local stays = closed <= now or party_stays(place)
  drop(place)
  if not stays then
    local ghost = place_of(place.id .. '~' .. int(place.token), 'C 0 0 ' .. place.details)
    write(ghost)
    come_in(ghost, closed)
  end
end

local function expire()
  while used > 0 do
    local first = call('ZRANGE', ENDS, 0, 0, 'WITHSCORES')
    local ends = tonumber(first[2])
    if not ends then
      -- No claim is inside, whatever the count says, because the server may have evicted the key.
      dirty, used = dirty or used ~= 0, 0
      return
    end
    if ends > now and ends - now <= GLANCE then
      return
    end
    local place = find(first[1])
    if not place then
      call('ZREM', ENDS, first[1])
      return
    end
    if ends > now then
      -- If the deadline is further off than it can have been set, the clock was set back. Count
      -- again from now; the holder stops trusting its hold before the new deadline.
      local longest = now + math.max(place.ttl, place.delay, place.hold)
      if ends > longest then
        call('ZADD', ENDS, int(longest), place.id)
      end
      return
    end
    if steps == 0 then
      more = true
      return
    end
    steps = steps - 1
    if place.standing == 'H' then
      -- If `since` is after the deadline, the clock was set back, and min_hold counts from the
      -- deadline.
      finish(place, math.max(ends + place.delay, math.min(place.since, ends) + place.hold))
    else
      drop(place)
      if place.standing == 'A' then
        turn_away(place)
      end
    end
  end
end

local function forget_the_gone()
  local over = call('ZRANGEBYSCORE', GONE, '-inf', int(now), 'LIMIT', 0, STEPS)
  for _, claim in ipairs(over) do
    local place = find(claim)
    if place then
      drop(place)
    end
    call('ZREM', GONE, claim)
  end
  if call('EXISTS', GONE) == 0 then
    has_gone, dirty = false, true -- that was the last one, or all of them were evicted
  end
end

-- When the door is full, only claims of an explicit owner inside may pass, and void claims can be
-- dropped later. With `thorough`, as many void claims as possible are dropped even before there is
-- room.
local function move_up(thorough)
  while true do
    if used >= capacity and not thorough and call('EXISTS', KIN) == 0 then
      return
    end
    local first = call('ZRANGE', LINE, 0, 0)[1]
    if not first then
      is_lined = false
      if not was_left then
        lose_line()
      end
      return
    end
    local place = find(first)
    if not place then
      call('ZREM', LINE, first)
      was_left, is_lined, dirty = true, nil, true
      return
    end
    local void = is_void(place)
    local inside = place.party == '-' and 0 or heaviest(place.party)
    if not void and place.weight - inside > capacity - used then
      return
    end
    if steps == 0 then
      more = true
      return
    end
    steps = steps - 1
    if void then
      local client = client_of(place.client)
      if client and client.epoch == place.since then
        -- The claim is void because its client was silent. If the client is alive after all, it
        -- must be notified. Otherwise it would wait without a place for as long as another claim of
        -- its own keeps the same epoch here.
        dismiss(client)
      end
      drop(place)
    else
      admit(place)
      let_kin_pass(place.party)
    end
  end
end

-- End what is overdue, then admit from the front of the line.
local function settle(thorough)
  expire()
  if has_gone then
    forget_the_gone()
  end
  if arrivals > 0 then
    move_up(thorough)
  end
end

-- Turns a solo hold into ordinary keys and fields → its record if it is this claim's, or nil.
local function unfold(claim)
  if not solo then
    return nil
  end
  local id, ends, record = string.match(solo, '^(%S+) (%d+) (.*)$')
  put('solo', false)
  put('#' .. id, record)
  come_in(place_of(id, record), tonumber(ends))
  return id == claim and record or nil
end

-- → the explicit owner's weight inside, from the records of some claims there, because kin may have
-- been evicted, and then the owner would wait for itself
local function recount(party)
  for _, claim in ipairs(call('ZRANGE', ENDS, 0, SHOWN - 1)) do
    local place = find(claim)
    if place and place.party == party and place.standing ~= 'C' then
      made[KIN], dirty = true, true
      call('ZADD', KIN, 0, kin_key(place))
    end
  end
  return (heaviest(party))
end

-- → alternating deadlines and records of some claims inside
local function inside()
  local list, claims = {}, {}
  local ends = call('ZRANGE', ENDS, 0, SHOWN - 1, 'WITHSCORES')
  for i = 1, #ends, 2 do
    claims[#claims + 1] = '#' .. ends[i]
  end
  local records = #claims > 0 and call('HMGET', DOOR, unpack(claims)) or {}
  for i, record in ipairs(records) do
    if record then
      list[#list + 1] = ends[2 * i]
      list[#list + 1] = record
    end
  end
  return list
end
