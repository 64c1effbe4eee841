# Values that depend on what is here.

_lastro_published='@PUBLISHED@'

_lastro_published() {
  local expl
  local -a published=(@STUDIES@)
  _wanted published expl 'published study' compadd -a published
}

_lastro_toml() {
  _files -g '*.toml(-.)'
}

_lastro_studies() {
  _alternative 'published:published study:_lastro_published' 'files:study file:_lastro_toml'
}

# Directories with a campaign or a suite, and those one level above; all directories when there are none of these.
_lastro_campaigns() {
  local expl typed=${(Q)PREFIX}
  local -a campaigns above
  campaigns=(${typed}*(N-/e:'[[ -e $REPLY/campaign.db || -e $REPLY/suite.json ]]':))
  above=(${typed}*(N-/e:'() { (( $# )) } $REPLY/*/(campaign.db|suite.json)(N)':))
  (( $#campaigns + $#above )) || { _files -/; return }
  local ret=1
  if (( $#campaigns )); then _wanted campaigns expl campaign compadd -f -a campaigns && ret=0; fi
  if (( $#above )); then _wanted directories expl directory compadd -f -S / -q -a above && ret=0; fi
  return ret
}

_lastro_campaigns_and_studies() {
  _alternative 'campaigns:campaign:_lastro_campaigns' 'studies:study:_lastro_studies'
}

# The profiles of the study that is on the command line; those of the published studies where there is no file.
_lastro_profiles() {
  local expl word
  local -a profiles=(quick standard paper published emulated) files
  for word in ${(Q)words[2,-1]}; do
    files+=(${word}(N-.) $word/*.toml(N-.))
  done
  files=(${(M)files:#*.toml})
  (( $#files )) && profiles=(${(uf)"$(sed -n 's/^ *\[profiles\.\([A-Za-z0-9_-]*\)\].*/\1/p' $files)"})
  _wanted profiles expl profile compadd -a profiles
}

# "FACTOR LEVEL" and "--set NAME" for the studies that are on the command line.
_lastro_choices() {
  local word
  local -a files
  for word in ${(Q)words[2,-1]}; do
    awk -v study=$word '@PUBLISHED_AWK@' <<<$_lastro_published
    files=(${word}(N-.) $word/*.toml(N-.))
    files=(${(M)files:#*.toml})
    if (( $#files )); then
      awk '@AWK@' $files
    fi
  done
}

# FACTOR=LEVEL,LEVEL: a level with a comma stands alone.
_lastro_only() {
  local expl name
  local -a choices levels used
  choices=(${(f)"$(_lastro_choices)"})
  choices=(${choices:#--set *})
  name=${PREFIX%%=*}
  if ! compset -P 1 '*='; then
    levels=(${(u)choices%% *})
    _wanted factors expl factor compadd -S = -a levels
    return
  fi
  levels=(${${(M)choices:#$name *}#* })
  if [[ $PREFIX == *,* && -z ${(M)levels:#${(b)PREFIX}*} ]]; then
    used=(${(s:,:)PREFIX%,*})
    compset -P '*,'
    levels=(${levels:#*,*})
    levels=(${levels:|used})
  fi
  _wanted levels expl level compadd -a levels
}

_lastro_settings() {
  local expl
  local -a choices names
  choices=(${(f)"$(_lastro_choices)"})
  names=(${(u)${(M)choices:#--set *}#--set })
  compset -P 1 '*=' || _wanted settings expl setting compadd -S = -a names
}
