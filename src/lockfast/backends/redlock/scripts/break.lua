#!lua flags=allow-oom
-- Ends the hold of these claims on an operator's request; nothing stays closed after it.
-- KEYS hold buried waiting node
-- ARGV the claims
-- → {now, counts, 1 broken, 0 none of them has the name} | {-1}

-- include opening.lua

-- include waking.lua

for _, claim in ipairs(ARGV) do
  if held and held.claim == claim then
    call('HDEL', HOLD, 'hold')
    bury(claim, 'B', int(held.attempt))
    wake()
    return {now, counts, 1}
  end
end
return {now, counts, 0}
