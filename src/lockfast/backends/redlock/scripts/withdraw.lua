#!lua flags=allow-oom
-- Makes sure that these attempts of a claim have nothing here, and that the claim is not woken.
-- KEYS hold buried waiting node
-- ARGV 1 claim  2 the last attempt that is over  3 tombstone (1, 0)  4 inbox, or empty
-- → {now, counts, 1} | {-1}

-- include opening.lua

-- include waking.lua

local is_ours = held and held.claim == ARGV[1] and held.attempt <= tonumber(ARGV[2])
if is_ours then
  call('HDEL', HOLD, 'hold')
end
if ARGV[4] ~= '' then
  call('ZREM', WAITING, ARGV[4] .. ' ' .. ARGV[1])
end
if ARGV[3] == '1' then
  bury(ARGV[1], 'G', ARGV[2])
end
local is_next = found[6] and string.match(found[6], '^%S+') == ARGV[1]
if is_next then
  call('HDEL', HOLD, 'turn')
end
if is_ours or (is_next and not held) then
  wake()
end
return {now, counts, 1}
