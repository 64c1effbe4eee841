# Values that depend on what is here. $1 is what was typed so far.

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
  local word file files=() names="quick standard paper published"
  for word in "${COMP_WORDS[@]:2}"; do
    for file in "$word" "$word"/*.toml; do
      [[ $file == *.toml && -f $file ]] && files+=("$file")
    done
  done
  ((${#files[@]})) && names=$(sed -n 's/^ *\[profiles\.\([A-Za-z0-9_-]*\)\].*/\1/p' "${files[@]}" | sort -u)
  compgen -W "$names" -- "$1"
}

# Bash splits words at ":" and "=", and paper:NAME and --option=value have these. Join the words, complete, and return
# only what follows the last ":".
_lastro() {
  local words=() joined="" word i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      ((i == COMP_CWORD)) && words+=("")
    elif [[ $word == :* || $joined ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    [[ $word == *: ]] && joined=yes || joined=""
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
  COMP_WORDS[COMP_CWORD]=${COMP_WORDS[COMP_CWORD]//\\/}
  local current=${COMP_WORDS[COMP_CWORD]}
  _shtab_lastro
  local given=""
  [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && given=${current%"${current##*:}"}
  for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do
    word=${COMPREPLY[i]#"$given"}
    if [[ $word == "~/"* ]]; then word="~/$(printf %q "${word:2}")"; else word=$(printf %q "$word"); fi
    COMPREPLY[i]=$word
  done
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
  return 0
}
