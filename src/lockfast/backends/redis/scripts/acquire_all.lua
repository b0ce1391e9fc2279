#!lua
-- Grants several names to one who asks for all of them, if nobody is at any of their doors.
-- KEYS door ends line gone kin, of one name after the other
-- ARGV 1 capacity  2... claim and details of each name, as acquire has them
-- → the token of each, or 0: then nothing was done, and they are asked for one by one

-- include opening.lua

for i = 2, #ARGV, 2 do
  if open(5 * (i / 2 - 1) + 1, ARGV[i]) or not is_empty() then
    return 0
  end
end
local tokens = {}
for i = 2, #ARGV, 2 do
  open(5 * (i / 2 - 1) + 1, ARGV[i])
  tokens[#tokens + 1] = enter_solo(ARGV[i], ARGV[1], ARGV[i + 1])
end
return tokens
