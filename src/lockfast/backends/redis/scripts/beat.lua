#!lua flags=allow-oom
-- Records that a client still waits for these names, and lets their lines move.
-- KEYS door ends line gone kin, for each name
-- ARGV 1 inbox  2... the client, for each name
-- → for each name: the client's epoch there, or 0 if none of its claims waits; µs until the first of
--   the claims inside ends, or -1; whether there is more to settle (1, 0)

-- include opening.lua

-- include door.lua

local answers = {}
for i = 2, #ARGV do
  open(5 * (i - 2) + 1, '')
  begin()
  unfold('')
  hear(ARGV[i], ARGV[1])
  settle(true)
  save()
  local client = client_of(ARGV[i])
  local first = call('ZRANGE', ENDS, 0, 0, 'WITHSCORES')
  answers[#answers + 1] = client and client.epoch or 0
  answers[#answers + 1] = first[2] and math.max(0, first[2] - now) or -1
  answers[#answers + 1] = more and 1 or 0
end
return answers
