#!lua flags=no-writes
-- Reports which of some commands this user may run; runs none of them.
-- ARGV the commands, each with its arguments, separated by spaces
-- → 1 or 0 for each

local answers = {}
for i, text in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word
  end
  answers[i] = redis.acl_check_cmd(unpack(words)) and 1 or 0
end
return answers
