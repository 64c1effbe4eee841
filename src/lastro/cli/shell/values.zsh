# Values that depend on what is here.

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
  local -a profiles=(quick standard paper published) files
  for word in ${(Q)words[2,-1]}; do
    files+=(${word}(N-.) $word/*.toml(N-.))
  done
  files=(${(M)files:#*.toml})
  (( $#files )) && profiles=(${(uf)"$(sed -n 's/^ *\[profiles\.\([A-Za-z0-9_-]*\)\].*/\1/p' $files)"})
  _wanted profiles expl profile compadd -a profiles
}
