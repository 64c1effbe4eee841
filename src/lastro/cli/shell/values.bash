# Values that depend on what is here. $1 is what was typed so far.

_lastro_published='@PUBLISHED@'

_lastro_studies() {
  compgen -W "@STUDIES@" -- "$1"
  _lastro_toml "$1"
}

_lastro_toml() {
  compgen -f -X '!*.toml' -- "$1"
  compgen -d -S / -- "$1"
}

_lastro_paths() {
  compgen -f -- "$1" | while IFS= read -r path; do
    if [[ -d ${path/#\~\//$HOME/} ]]; then echo "$path/"; else echo "$path"; fi
  done
}

_lastro_directories() {
  compgen -d -S / -- "$1"
}

# Directories with a campaign or a suite, and those one level above; all directories when there are none of these.
_lastro_campaigns() {
  local directory place found=""
  while IFS= read -r directory; do
    place=${directory/#\~\//$HOME/}
    if [[ -e $place/campaign.db ]]; then
      found+=$directory$'\n'
    elif [[ -e $place/suite.json ]]; then
      found+=$directory$'\n'$directory/$'\n'
    elif compgen -G "$place/*/campaign.db" >/dev/null || compgen -G "$place/*/suite.json" >/dev/null; then
      found+=$directory/$'\n'
    fi
  done < <(compgen -d -- "$1")
  if [[ $found ]]; then printf '%s' "$found"; else _lastro_directories "$1"; fi
}

_lastro_campaigns_and_studies() {
  _lastro_studies "$1"
  _lastro_campaigns "$1"
}

# The profiles of the study that is on the command line; those of the published studies where there is no file.
_lastro_profiles() {
  local word file files=() names="quick standard paper published emulated"
  for word in "${COMP_WORDS[@]:2}"; do
    for file in "$word" "$word"/*.toml; do
      [[ $file == *.toml && -f $file ]] && files+=("$file")
    done
  done
  ((${#files[@]})) && names=$(sed -n 's/^ *\[profiles\.\([A-Za-z0-9_-]*\)\].*/\1/p' "${files[@]}" | sort -u)
  compgen -W "$names" -- "$1"
}

# "FACTOR LEVEL" and "--set NAME" for the studies that are on the command line.
_lastro_choices() {
  local word file
  for word in "${COMP_WORDS[@]:2}"; do
    awk -v study="$word" '@PUBLISHED_AWK@' <<<"$_lastro_published"
    for file in "$word" "$word"/*.toml; do
      [[ $file == *.toml && -f $file ]] && awk '@AWK@' "$file"
    done
  done
}

# FACTOR=LEVEL,LEVEL: a level with a comma stands alone.
_lastro_only() {
  local factor level begun=$1 name=${1%%=*} value=${1#*=}
  local head=${value%"${value##*,}"}
  while read -r factor level; do
    if [[ $factor == --set ]]; then
      continue
    elif [[ $begun != *=* ]]; then
      level=$factor=
    elif [[ $factor != "$name" ]]; then
      continue
    elif [[ $level == "$value"* ]]; then
      level=$name=$level
    elif [[ $level != *,* && ,$head != *,$level,* ]]; then
      level=$name=$head$level
    fi
    [[ $level == "$begun"* ]] && echo "$level"
  done < <(_lastro_choices) | sort -u
}

_lastro_settings() {
  local option name
  while read -r option name; do
    [[ $option == --set && $name= == "$1"* ]] && echo "$name="
  done < <(_lastro_choices) | sort -u
}

# Bash splits words at ":" and "=", and --option=value and FACTOR=kvm:disk=virtio have these. Join the words, complete,
# and return only what follows the last of them.
_lastro() {
  local words=() joined="" word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = && ${words[${#words[@]} - 1]} == -* && ! $joined ]]; then # --option=value
      ((i == COMP_CWORD)) && words+=("")
    elif [[ $word == [:=]* || $joined ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    [[ $word == *: || ($word == = && ${words[${#words[@]} - 1]} == *=) ]] && joined=yes || joined=""
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
  COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]//\\/}
  local current=${COMP_WORDS[COMP_CWORD]}
  _shtab_lastro
  local given="" breaks=${COMP_WORDBREAKS//[^:=]/}
  [[ $breaks && $current == *[$breaks]* ]] && given=${current%"${current##*[$breaks]}"}
  for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do
    word=${COMPREPLY[i]#"$given"}
    if [[ $word == "~/"* ]]; then
      word="~/$(printf %q "${word:2}")"
    elif [[ $word == *[!A-Za-z0-9_.,:=/+-]* ]]; then # %q would quote a comma, too
      word=$(printf %q "$word")
    fi
    COMPREPLY[i]=$word
  done
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[/=] ]]; then compopt -o nospace 2>/dev/null; fi
  return 0
}
