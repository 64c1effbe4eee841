# "FACTOR LEVEL" for each level of a study file, and "--set NAME" for each of its constants. It holds no single quote,
# because the scripts of the shells have it between two.
function flush() {
  if (word != "" && reading) print key, word
  word = ""
}
FNR == 1 { section = ""; depth = 0; quote = "" }
depth == 0 && /^[ \t]*\[/ { section = $1; next }
section != "[factors]" && section != "[settings]" { next }
{
  for (i = 1; i <= length($0); i++) {
    char = substr($0, i, 1)
    if (quote != "") {
      if (char == quote) quote = ""
      else word = word char
    } else if (char == "#") break
    else if (char == "\"" || char == "\047") quote = char
    else if (char == "[") depth++
    else if (char == "]") { depth--; flush() }
    else if (char == ",") flush()
    else if (char == "=") {
      key = word
      word = ""
      if (section == "[settings]") print "--set", key
      reading = section == "[factors]"
    } else if (char !~ /[ \t\r]/) word = word char
  }
  if (depth == 0) { flush(); word = ""; reading = 0 }
}
