# Completion of Lastro's commands for bash, made by shtab (MPL-2.0, https://github.com/tqdm/shtab).
# Install: lastro completion bash > ~/.local/share/bash-completion/completions/lastro
#       or, without the package bash-completion, in ~/.bashrc: eval "$(lastro completion bash)"

_shtab_lastro_subparsers=(new plan run resume calibrate schema status show results report claims advise-replicates compare setup doctor parts image clean completion man)

_shtab_lastro_new_option_strings=(-h --help --name --force)
_shtab_lastro_plan_option_strings=(-h --help --testbed --profile --no-probe --schedule --wait --json)
_shtab_lastro_run_option_strings=(-h --help --testbed --profile -o --output --wait --no-report)
_shtab_lastro_resume_option_strings=(-h --help --testbed --wait --changed-host --no-report)
_shtab_lastro_calibrate_option_strings=(-h --help --profile --testbed -o --output --all --wait --changed-host --json)
_shtab_lastro_schema_option_strings=(-h --help)
_shtab_lastro_status_option_strings=(-h --help --json)
_shtab_lastro_show_option_strings=(-h --help --attempt --commands --json)
_shtab_lastro_results_option_strings=(-h --help --json --csv --parquet --all-metrics)
_shtab_lastro_report_option_strings=(-h --help -o --output --format --lang --figures --all-metrics)
_shtab_lastro_claims_option_strings=(-h --help --claims --json --lang --fail-on)
_shtab_lastro_advise_replicates_option_strings=(-h --help --precision --json)
_shtab_lastro_compare_option_strings=(-h --help --metric --fail-over --fail-lost --confidence --junit --all --format --json)
_shtab_lastro_setup_option_strings=(-h --help --all --dry-run --json)
_shtab_lastro_doctor_option_strings=(-h --help --platform --testbed --json --wait)
_shtab_lastro_parts_option_strings=(-h --help --json)
_shtab_lastro_image_option_strings=(-h --help --json)
_shtab_lastro_clean_option_strings=(-h --help --dry-run --wait)
_shtab_lastro_completion_option_strings=(-h --help)
_shtab_lastro_man_option_strings=(-h --help --roff)
_shtab_lastro_option_strings=(-h --help -V --version)

_shtab_lastro_new_pos_0_COMPGEN=_lastro_toml
_shtab_lastro_plan_pos_0_COMPGEN=_lastro_studies
_shtab_lastro_plan___testbed_COMPGEN=_lastro_toml
_shtab_lastro_plan___profile_COMPGEN=_lastro_profiles
_shtab_lastro_run_pos_0_COMPGEN=_lastro_studies
_shtab_lastro_run___testbed_COMPGEN=_lastro_toml
_shtab_lastro_run___profile_COMPGEN=_lastro_profiles
_shtab_lastro_run__o_COMPGEN=_lastro_directories
_shtab_lastro_run___output_COMPGEN=_lastro_directories
_shtab_lastro_resume_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_resume___testbed_COMPGEN=_lastro_toml
_shtab_lastro_calibrate_pos_0_COMPGEN=_lastro_campaigns_and_studies
_shtab_lastro_calibrate___profile_COMPGEN=_lastro_profiles
_shtab_lastro_calibrate___testbed_COMPGEN=_lastro_toml
_shtab_lastro_calibrate__o_COMPGEN=_lastro_campaigns
_shtab_lastro_calibrate___output_COMPGEN=_lastro_campaigns
_shtab_lastro_status_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_show_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_results_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_results___csv_COMPGEN=_lastro_paths
_shtab_lastro_results___parquet_COMPGEN=_lastro_paths
_shtab_lastro_report_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_report__o_COMPGEN=_lastro_paths
_shtab_lastro_report___output_COMPGEN=_lastro_paths
_shtab_lastro_claims_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_claims___claims_COMPGEN=_lastro_toml
_shtab_lastro_advise_replicates_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_compare_pos_0_COMPGEN=_lastro_campaigns
_shtab_lastro_compare_pos_1_COMPGEN=_lastro_campaigns
_shtab_lastro_compare___junit_COMPGEN=_lastro_paths
_shtab_lastro_doctor___testbed_COMPGEN=_lastro_toml

_shtab_lastro_schema_pos_0_choices=(application chain compute exposure lifecycle proxy routing uplink)
_shtab_lastro_report___format_choices=(html md latex)
_shtab_lastro_report___lang_choices=(en pt-BR)
_shtab_lastro_claims___lang_choices=(en pt-BR)
_shtab_lastro_claims___fail_on_choices=(contradicted not-reproduced)
_shtab_lastro_compare___format_choices=(text md github)
_shtab_lastro_setup_pos_0_choices=(apparmor application bonnie capabilities cgroups chain cloud-hypervisor compute cpu crun curl dbench disk docker dpi exposure fio firecracker firewall gvisor gzip host http-proxy incus interfaces io iperf2-udp iperf3-tcp iperf3-udp iperf3-udp-load ipvlan jmeter john kata kvm landlock lifecycle lxc lxd macvlan-bridge macvtap mbw memory nat native none nspawn openvz ospf-router ovs ovs-userspace pi ping podman proxy pts qemu-tcg read-only-root routed routing runc seccomp selinux stream sysbench-cpu sysbench-memory sysbench-oltp uplink usage user-namespace vegeta veth-bridge veth-direct virtualbox vxlan xen y-cruncher)
_shtab_lastro_doctor___platform_choices=(cloud-hypervisor crun docker firecracker gvisor incus kata kvm lxc lxd native nspawn openvz podman qemu-tcg runc virtualbox xen)
_shtab_lastro_parts_pos_0_choices=(anomaly attachment function instrument isolation meter platform scenario)
_shtab_lastro_completion_pos_0_choices=(bash zsh fish)
_shtab_lastro_pos_0_choices=(new plan run resume calibrate schema status show results report claims advise-replicates compare setup doctor parts image clean completion man)

_shtab_lastro_new__h_nargs=0
_shtab_lastro_new___help_nargs=0
_shtab_lastro_new___force_nargs=0
_shtab_lastro_plan__h_nargs=0
_shtab_lastro_plan___help_nargs=0
_shtab_lastro_plan___no_probe_nargs=0
_shtab_lastro_plan___schedule_nargs=0
_shtab_lastro_plan___wait_nargs=0
_shtab_lastro_plan___json_nargs=0
_shtab_lastro_run__h_nargs=0
_shtab_lastro_run___help_nargs=0
_shtab_lastro_run___wait_nargs=0
_shtab_lastro_run___no_report_nargs=0
_shtab_lastro_resume__h_nargs=0
_shtab_lastro_resume___help_nargs=0
_shtab_lastro_resume___wait_nargs=0
_shtab_lastro_resume___changed_host_nargs=0
_shtab_lastro_resume___no_report_nargs=0
_shtab_lastro_calibrate__h_nargs=0
_shtab_lastro_calibrate___help_nargs=0
_shtab_lastro_calibrate___all_nargs=0
_shtab_lastro_calibrate___wait_nargs=0
_shtab_lastro_calibrate___changed_host_nargs=0
_shtab_lastro_calibrate___json_nargs=0
_shtab_lastro_schema__h_nargs=0
_shtab_lastro_schema___help_nargs=0
_shtab_lastro_status__h_nargs=0
_shtab_lastro_status___help_nargs=0
_shtab_lastro_status___json_nargs=0
_shtab_lastro_show__h_nargs=0
_shtab_lastro_show___help_nargs=0
_shtab_lastro_show___commands_nargs=0
_shtab_lastro_show___json_nargs=0
_shtab_lastro_results__h_nargs=0
_shtab_lastro_results___help_nargs=0
_shtab_lastro_results___json_nargs=0
_shtab_lastro_results___all_metrics_nargs=0
_shtab_lastro_report__h_nargs=0
_shtab_lastro_report___help_nargs=0
_shtab_lastro_report___figures_nargs=0
_shtab_lastro_report___all_metrics_nargs=0
_shtab_lastro_claims__h_nargs=0
_shtab_lastro_claims___help_nargs=0
_shtab_lastro_claims___json_nargs=0
_shtab_lastro_advise_replicates__h_nargs=0
_shtab_lastro_advise_replicates___help_nargs=0
_shtab_lastro_advise_replicates___json_nargs=0
_shtab_lastro_compare__h_nargs=0
_shtab_lastro_compare___help_nargs=0
_shtab_lastro_compare___fail_lost_nargs=0
_shtab_lastro_compare___all_nargs=0
_shtab_lastro_compare___json_nargs=0
_shtab_lastro_setup_pos_0_nargs='*'
_shtab_lastro_setup__h_nargs=0
_shtab_lastro_setup___help_nargs=0
_shtab_lastro_setup___all_nargs=0
_shtab_lastro_setup___dry_run_nargs=0
_shtab_lastro_setup___json_nargs=0
_shtab_lastro_doctor__h_nargs=0
_shtab_lastro_doctor___help_nargs=0
_shtab_lastro_doctor___json_nargs=0
_shtab_lastro_doctor___wait_nargs=0
_shtab_lastro_parts__h_nargs=0
_shtab_lastro_parts___help_nargs=0
_shtab_lastro_parts___json_nargs=0
_shtab_lastro_image__h_nargs=0
_shtab_lastro_image___help_nargs=0
_shtab_lastro_image___json_nargs=0
_shtab_lastro_clean__h_nargs=0
_shtab_lastro_clean___help_nargs=0
_shtab_lastro_clean___dry_run_nargs=0
_shtab_lastro_clean___wait_nargs=0
_shtab_lastro_completion__h_nargs=0
_shtab_lastro_completion___help_nargs=0
_shtab_lastro_man__h_nargs=0
_shtab_lastro_man___help_nargs=0
_shtab_lastro_man___roff_nargs=0
_shtab_lastro_pos_0_nargs=A...
_shtab_lastro__h_nargs=0
_shtab_lastro___help_nargs=0
_shtab_lastro__V_nargs=0
_shtab_lastro___version_nargs=0


# Custom Preamble
# Values that depend on what is here. $1 is what was typed so far.

_lastro_studies() {
  compgen -W "paper:correa2011 paper:eiras2018 paper:eiras2018/capacity paper:eiras2018/loops paper:eiras2018/platforms paper:eiras2018/resources paper:eiras2018/scaling paper:kagami2017 paper:lifecycle paper:mendes2019 paper:mendes2019/cpu paper:mendes2019/disk paper:mendes2019/gzip paper:mendes2019/memory paper:trindade2018 paper:trindade2018/application paper:trindade2018/cpu paper:trindade2018/cpu-size paper:trindade2018/disk paper:trindade2018/disk-fio paper:trindade2018/memory paper:trindade2018/uplink paper:trindade2018/uplink-peer" -- "$1"
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

# The profiles of the study that is on the command line; those that every published study has where there is no file.
_lastro_profiles() {
  local word file files=() names="quick standard paper"
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

# End Custom Preamble

# $1=COMP_WORDS[1]
_shtab_compgen_files() {
  compgen -f -- $1  # files
}

# $1=COMP_WORDS[1]
_shtab_compgen_dirs() {
  compgen -d -- $1  # recurse into subdirs
}

# $1=COMP_WORDS[1]
_shtab_replace_nonword() {
  echo "${1//[^[:word:]]/_}"
}

# set default values (called for the initial parser & any subparsers)
_set_parser_defaults() {
  local subparsers_var="${prefix}_subparsers[@]"
  sub_parsers=${!subparsers_var-}

  local current_option_strings_var="${prefix}_option_strings[@]"
  current_option_strings=${!current_option_strings_var}

  completed_positional_actions=0

  _set_new_action "pos_$completed_positional_actions" true
}

# $1=action identifier
# $2=positional action (bool)
# set all identifiers for an action's parameters
_set_new_action() {
  current_action="${prefix}_$(_shtab_replace_nonword $1)"

  local current_action_compgen_var=${current_action}_COMPGEN
  current_action_compgen="${!current_action_compgen_var-}"

  local current_action_choices_var="${current_action}_choices[@]"
  current_action_choices="${!current_action_choices_var-}"

  local current_action_nargs_var="${current_action}_nargs"
  if [ -n "${!current_action_nargs_var-}" ]; then
    current_action_nargs="${!current_action_nargs_var}"
  else
    current_action_nargs=1
  fi

  current_action_args_start_index=$(( $word_index + 1 - $pos_only ))

  current_action_is_positional=$2
}

# Notes:
# `COMPREPLY`: what will be rendered after completion is triggered
# `completing_word`: currently typed word to generate completions for
# `${!var}`: evaluates the content of `var` and expand its content as a variable
#     hello="world"
#     x="hello"
#     ${!x} -> ${hello} -> "world"
_shtab_lastro() {
  local completing_word="${COMP_WORDS[COMP_CWORD]}"
  local previous_word="${COMP_WORDS[COMP_CWORD-1]}"
  local completed_positional_actions
  local current_action
  local current_action_args_start_index
  local current_action_choices
  local current_action_compgen
  local current_action_is_positional
  local current_action_nargs
  local current_option_strings
  local sub_parsers
  COMPREPLY=()

  local prefix=_shtab_lastro
  local word_index=0
  local pos_only=0 # "--" delimiter not encountered yet
  _set_parser_defaults
  word_index=1

  # determine what arguments are appropriate for the current state
  # of the arg parser
  while [ $word_index -ne $COMP_CWORD ]; do
    local this_word="${COMP_WORDS[$word_index]}"

    if [[ $pos_only = 1 || " $this_word " != " -- " ]]; then
      if [[ -n $sub_parsers && " ${sub_parsers[@]} " == *" $this_word "* ]]; then
        # valid subcommand: add it to the prefix & reset the current action
        prefix="${prefix}_$(_shtab_replace_nonword $this_word)"
        _set_parser_defaults
      fi

      if [[ " ${current_option_strings[@]} " == *" $this_word "* ]]; then
        # a new action should be acquired (due to recognised option string or
        # no more input expected from current action);
        # the next positional action can fill in here
        _set_new_action $this_word false
      fi

      if [[ "$current_action_nargs" != "*" ]] && \
         [[ "$current_action_nargs" != "+" ]] && \
         [[ "$current_action_nargs" != "?" ]] && \
         [[ "$current_action_nargs" != *"..." ]] && \
         (( $word_index + 1 - $current_action_args_start_index - $pos_only >= \
            $current_action_nargs )); then
        $current_action_is_positional && let "completed_positional_actions += 1"
        _set_new_action "pos_$completed_positional_actions" true
      fi
    else
      pos_only=1 # "--" delimiter encountered
    fi

    let "word_index+=1"
  done

  # Generate the completions

  COMPREPLY=()
  if [[ $pos_only = 0 && "$completing_word" == -* &&
        ( -z "$current_action_compgen" || "$current_action_is_positional" = true ) ]]; then
    # optional argument started: use option strings
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_option_strings[*]}" -- "$completing_word")
  elif [[ "$previous_word" =~ ^[0-9\&]*[\<\>]\>?$ ]]; then
    # handle redirection operators
    compopt -o filenames 2>/dev/null || : # bash>=4
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$completing_word")
  else
    # use choices & compgen
    local action_compgen_word="$completing_word"
    # handle tab-completing in the middle of a line (#248 <- #116)
    [[ -n "$current_action_compgen" && "$completing_word" == -* ]] && action_compgen_word=""
    [ -n "$current_action_compgen" ] && {
      [[ "$current_action_compgen" =~ _(file|dir|glob|FILE|DIR|GLOB)|File|Dir|Glob ]] &&
        compopt -o filenames 2>/dev/null || : # bash>=4
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        "$current_action_compgen" "$action_compgen_word")
    }
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
      compgen -W "${current_action_choices[*]}" -- "$completing_word")
  fi

  if [[ ${#COMPREPLY[@]} = 0 ]]; then
    # native fallback matches are not necessarily filenames (e.g. variables)
    compopt +o filenames 2>/dev/null || : # bash>=4
  fi

  return 0
}

complete -o bashdefault -F _lastro lastro
