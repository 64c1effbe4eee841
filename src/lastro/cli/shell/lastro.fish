# Completion of Lastro's commands for fish, made by shtab (MPL-2.0, https://github.com/tqdm/shtab).
# Install: lastro completion fish > ~/.config/fish/completions/lastro.fish

function _lastro_toml
    for path in (__fish_complete_path (commandline -ct))
        set -l name (string split -m1 \t -- $path)[1]
        string match -q -r '(\.toml|/)$' -- $name; and echo $name
    end
end

function _lastro_studies
    printf '%s\tpublished study\n' paper:correa2011 paper:eiras2018 paper:eiras2018/capacity paper:eiras2018/loops paper:eiras2018/platforms paper:eiras2018/resources paper:eiras2018/scaling paper:kagami2017 paper:lifecycle paper:mendes2019 paper:mendes2019/cpu paper:mendes2019/disk paper:mendes2019/gzip paper:mendes2019/memory paper:trindade2018 paper:trindade2018/application paper:trindade2018/cpu paper:trindade2018/cpu-size paper:trindade2018/disk paper:trindade2018/disk-fio paper:trindade2018/memory paper:trindade2018/uplink paper:trindade2018/uplink-peer
    _lastro_toml
end

# Directories with a campaign or a suite, and those one level above; all directories when there are none of these.
function _lastro_campaigns
    set -l directories
    set -l found
    for line in (__fish_complete_directories (commandline -ct))
        set -l directory (string split -m1 \t -- $line)[1]
        set -l place (string replace -r '^~/' $HOME/ -- $directory)
        set -a directories $directory
        set -l inner $place/*/campaign.db $place/*/suite.json
        if test -e $place/campaign.db; or test -e $place/suite.json
            set -a found $directory\tcampaign
        else if test (count $inner) -gt 0
            set -a found $directory
        end
    end
    set -q found[1]; or set found $directories
    printf '%s\n' $found
end

function _lastro_campaigns_and_studies
    _lastro_campaigns
    _lastro_studies
end

# The profiles of the study that is on the command line; those that every published study has where there is no file.
function _lastro_profiles
    set -l files
    for word in (commandline -opc)[3..-1]
        set -l inside $word/*.toml
        for file in $word $inside
            string match -q '*.toml' -- $file; and test -f $file; and set -a files $file
        end
    end
    if set -q files[1]
        sed -n 's/^ *\[profiles\.\([A-Za-z0-9_-]*\)\].*/\1/p' $files | sort -u
    else
        printf '%s\n' quick standard paper
    end
end

# End Custom Preamble

# Parse current commandline:
# - _shtab_lastro_cmdpath=(sub)command path seen so far
# - _shtab_lastro_npos=number of positional arguments given after it
# - options are skipped based on _shtab_lastro_opts_with_value & _shtab_lastro_commands lists
function _shtab_lastro_scan
  set -g _shtab_lastro_cmdpath ''
  set -g _shtab_lastro_npos 0
  set -l tokens (commandline -opc)
  set -e tokens[1]
  set -l expect_value 0
  for t in $tokens
    if test $expect_value -eq 1
      set expect_value 0
      continue
    end
    switch "$t"
      case '--*=*'
        continue
      case '-*'
        if contains -- $t $_shtab_lastro_opts_with_value
          set expect_value 1
        end
        continue
      case '*'
        if test $_shtab_lastro_npos -eq 0
          set -l candidate $t
          if test -n "$_shtab_lastro_cmdpath"
            set candidate "$_shtab_lastro_cmdpath $t"
          end
          if contains -- $candidate $_shtab_lastro_commands
            set -g _shtab_lastro_cmdpath $candidate
            continue
          end
        end
        set -g _shtab_lastro_npos (math $_shtab_lastro_npos + 1)
    end
  end
end

# Condition helper: true if the current (sub)command path equals the given one.
function _shtab_lastro_using
  _shtab_lastro_scan
  test "$_shtab_lastro_cmdpath" = "$argv"
end

set -g _shtab_lastro_commands new plan run resume calibrate schema status show results report claims advise-replicates compare setup doctor parts image clean completion man
set -g _shtab_lastro_opts_with_value --attempt --claims --confidence --csv --fail-on --fail-over --format --junit --lang --metric --name --output --parquet --platform --precision --profile --testbed -o

complete -c lastro -e
complete -c lastro -f

complete -c lastro -n _shtab_lastro_using -s h -l help -d 'show this help message and exit'
complete -c lastro -n _shtab_lastro_using -s V -l version -d 'print the version and exit'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a new -d 'write a commented study file to start from'
complete -c lastro -n '_shtab_lastro_using new' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using new' -l name -x -d 'the study'"'"'s name; default: the file'"'"'s name without its ending'
complete -c lastro -n '_shtab_lastro_using new' -l force -d 'overwrite the file when it exists'
complete -c lastro -n '_shtab_lastro_using new; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_toml)" -d 'where to write it; - is standard output'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a plan -d 'show treatments, trials, what is unavailable and why, and the expected duration'
complete -c lastro -n '_shtab_lastro_using plan' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using plan' -l testbed -xka "(_lastro_toml)" -d 'where client, DUT and server are; without it, on this machine'
complete -c lastro -n '_shtab_lastro_using plan' -l profile -xka "(_lastro_profiles)" -d 'one of the study'"'"'s profiles: quick, standard or paper'
complete -c lastro -n '_shtab_lastro_using plan' -l no-probe -d 'do not probe what this host can run'
complete -c lastro -n '_shtab_lastro_using plan' -l schedule -d 'list every trial in running order'
complete -c lastro -n '_shtab_lastro_using plan' -l wait -d 'wait for a campaign on this host to end before probing'
complete -c lastro -n '_shtab_lastro_using plan' -l json -d 'print it as JSON'
complete -c lastro -n '_shtab_lastro_using plan; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_studies)" -d 'a study file, or paper:NAME or paper:NAME/FRONT, published; or a suite: a folder of study files, a paper'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a run -d 'run a study on this host (root)'
complete -c lastro -n '_shtab_lastro_using run' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using run' -l testbed -xka "(_lastro_toml)" -d 'where client, DUT and server are; without it, on this machine'
complete -c lastro -n '_shtab_lastro_using run' -l profile -xka "(_lastro_profiles)" -d 'one of the study'"'"'s profiles: quick, standard or paper'
complete -c lastro -n '_shtab_lastro_using run' -s o -l output -xka "(__fish_complete_directories (commandline -ct))" -d 'the campaign'"'"'s directory; must not hold one'
complete -c lastro -n '_shtab_lastro_using run' -l wait -d 'wait for another campaign on this host to end'
complete -c lastro -n '_shtab_lastro_using run' -l no-report -d 'do not write the HTML report at the end'
complete -c lastro -n '_shtab_lastro_using run; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_studies)" -d 'a study file, or paper:NAME or paper:NAME/FRONT, published; or a suite: a folder of study files, a paper'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a resume -d 'continue a campaign that was interrupted (root)'
complete -c lastro -n '_shtab_lastro_using resume' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using resume' -l testbed -xka "(_lastro_toml)" -d 'where client, DUT and server are; without it, on this machine'
complete -c lastro -n '_shtab_lastro_using resume' -l wait -d 'wait for another campaign on this host to end'
complete -c lastro -n '_shtab_lastro_using resume' -l changed-host -d 'go on although the host or the image has changed'
complete -c lastro -n '_shtab_lastro_using resume' -l no-report -d 'do not write the HTML report at the end'
complete -c lastro -n '_shtab_lastro_using resume; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a calibrate -d 'run the baseline against itself: the noise floor of each metric here (root)'
complete -c lastro -n '_shtab_lastro_using calibrate' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using calibrate' -l profile -xka "(_lastro_profiles)" -d 'of a study file: quick, standard or paper'
complete -c lastro -n '_shtab_lastro_using calibrate' -l testbed -xka "(_lastro_toml)" -d 'where client, DUT and server are; without it, on this machine'
complete -c lastro -n '_shtab_lastro_using calibrate' -s o -l output -xka "(_lastro_campaigns)" -d 'directory of the A/A campaign, new or finished'
complete -c lastro -n '_shtab_lastro_using calibrate' -l all -d 'every baseline treatment, however long it takes'
complete -c lastro -n '_shtab_lastro_using calibrate' -l wait -d 'wait for another campaign on this host to end'
complete -c lastro -n '_shtab_lastro_using calibrate' -l changed-host -d 'keep the floors though the host or image differ'
complete -c lastro -n '_shtab_lastro_using calibrate' -l json -d 'print it as JSON'
complete -c lastro -n '_shtab_lastro_using calibrate; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns_and_studies)" -d 'a campaign'"'"'s directory, or a study file, or paper:NAME'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a schema -d 'print the JSON Schema of study files, for editors'
complete -c lastro -n '_shtab_lastro_using schema' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using schema; and test $_shtab_lastro_npos -eq 0' -ka "application chain compute exposure lifecycle proxy routing uplink" -d 'only studies of this scenario'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a status -d 'how far a campaign is'
complete -c lastro -n '_shtab_lastro_using status' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using status' -l json -d 'print one JSON document'
complete -c lastro -n '_shtab_lastro_using status; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a show -d 'everything known of one trial; --commands: a script that repeats it by hand'
complete -c lastro -n '_shtab_lastro_using show' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using show' -l attempt -x -d 'an attempt of the trial; default: the last'
complete -c lastro -n '_shtab_lastro_using show' -l commands -d 'print a shell script that repeats the trial by hand'
complete -c lastro -n '_shtab_lastro_using show' -l json -d 'print everything as JSON, series and transcript included'
complete -c lastro -n '_shtab_lastro_using show; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a results -d 'table of results; --json, --csv, --parquet'
complete -c lastro -n '_shtab_lastro_using results' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using results' -l json -d 'print one JSON document instead of the table'
complete -c lastro -n '_shtab_lastro_using results' -l csv -xka "(__fish_complete_path (commandline -ct))" -d 'write every attempt and metric as CSV; - for standard output'
complete -c lastro -n '_shtab_lastro_using results' -l parquet -xka "(__fish_complete_path (commandline -ct))" -d 'write the same rows as Parquet'
complete -c lastro -n '_shtab_lastro_using results' -l all-metrics -d 'all that was measured, not the study'"'"'s metrics only'
complete -c lastro -n '_shtab_lastro_using results; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a report -d 'write the self-contained HTML report'
complete -c lastro -n '_shtab_lastro_using report' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using report' -s o -l output -xka "(__fish_complete_path (commandline -ct))" -d 'where to write (default: DIR/report.html, .md or .tex)'
complete -c lastro -n '_shtab_lastro_using report' -l format -xka "html md latex" -d 'the kind of document (default: html)'
complete -c lastro -n '_shtab_lastro_using report' -l lang -xka "en pt-BR" -d 'the language of the report (default: en)'
complete -c lastro -n '_shtab_lastro_using report' -l figures -d 'also write every figure as SVG, PNG and PDF to DIR/figures'
complete -c lastro -n '_shtab_lastro_using report' -l all-metrics -d 'all that was measured, not the study'"'"'s metrics only'
complete -c lastro -n '_shtab_lastro_using report; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a claims -d 'what the campaign says of published claims, one by one'
complete -c lastro -n '_shtab_lastro_using claims' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using claims' -l claims -xka "(_lastro_toml)" -d 'a claims file (default: DIR/claims.toml, or a paper'"'"'s)'
complete -c lastro -n '_shtab_lastro_using claims' -l json -d 'print one JSON document instead of the table'
complete -c lastro -n '_shtab_lastro_using claims' -l lang -xka "en pt-BR" -d 'the language of the table (default: en)'
complete -c lastro -n '_shtab_lastro_using claims' -l fail-on -xka "contradicted not-reproduced" -d 'exit with 4 when any claim has this verdict'
complete -c lastro -n '_shtab_lastro_using claims; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a advise-replicates -d 'how many blocks the next campaign needs, and whether longer trials pay'
complete -c lastro -n '_shtab_lastro_using advise-replicates' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using advise-replicates' -l precision -x -d 'half the interval'"'"'s width over the ratio: 5% (default) or 0.05'
complete -c lastro -n '_shtab_lastro_using advise-replicates' -l json -d 'print it as JSON'
complete -c lastro -n '_shtab_lastro_using advise-replicates; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign'"'"'s directory, as `lastro run` named it'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a compare -d 'the same study on two hosts or two days; --fail-over 5%: a gate for CI'
complete -c lastro -n '_shtab_lastro_using compare' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using compare' -l metric -x -d 'only this metric; may be given again'
complete -c lastro -n '_shtab_lastro_using compare' -l fail-over -x -d 'exit with 4 when a metric is worse by more: 5% or 0.05, below 1'
complete -c lastro -n '_shtab_lastro_using compare' -l fail-lost -d 'exit with 4 too when A measured something and B could not'
complete -c lastro -n '_shtab_lastro_using compare' -l confidence -x -d 'of intervals and gate (default: A'"'"'s study'"'"'s)'
complete -c lastro -n '_shtab_lastro_using compare' -l junit -xka "(__fish_complete_path (commandline -ct))" -d 'write the outcome as JUnit XML, for CI systems'
complete -c lastro -n '_shtab_lastro_using compare' -l all -d 'show every row that is not distinguishable, too'
complete -c lastro -n '_shtab_lastro_using compare' -l format -xka "text md github" -d 'md: Markdown; github: annotations of GitHub Actions; default: text'
complete -c lastro -n '_shtab_lastro_using compare' -l json -d 'print one JSON document instead of the table'
complete -c lastro -n '_shtab_lastro_using compare; and test $_shtab_lastro_npos -eq 0' -ka "(_lastro_campaigns)" -d 'the campaign to compare with: before, the other host'
complete -c lastro -n '_shtab_lastro_using compare; and test $_shtab_lastro_npos -eq 1' -ka "(_lastro_campaigns)" -d 'the campaign to judge: after, this host'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a setup -d 'install what parts require: Debian packages, gVisor, vegeta, JMeter (root)'
complete -c lastro -n '_shtab_lastro_using setup' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using setup' -l all -d 'what all parts and the tests require'
complete -c lastro -n '_shtab_lastro_using setup' -l dry-run -d 'only print the commands, as a shell script; no root'
complete -c lastro -n '_shtab_lastro_using setup' -l json -d 'print the outcome as JSON, progress on standard error'
complete -c lastro -n '_shtab_lastro_using setup; and test $_shtab_lastro_npos -ge 0' -ka "apparmor application bonnie capabilities cgroups chain cloud-hypervisor compute cpu crun curl dbench disk docker dpi exposure fio firecracker firewall gvisor gzip host http-proxy incus interfaces io iperf2-udp iperf3-tcp iperf3-udp iperf3-udp-load ipvlan jmeter john kata kvm landlock lifecycle lxc lxd macvlan-bridge macvtap mbw memory nat native none nspawn openvz ospf-router ovs ovs-userspace pi ping podman proxy pts qemu-tcg read-only-root routed routing runc seccomp selinux stream sysbench-cpu sysbench-memory sysbench-oltp uplink usage user-namespace vegeta veth-bridge veth-direct virtualbox vxlan xen y-cruncher" -d 'such as docker, vegeta or platform/gvisor'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a doctor -d 'what this host can do, proven by doing (root)'
complete -c lastro -n '_shtab_lastro_using doctor' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using doctor' -l platform -xka "cloud-hypervisor crun docker firecracker gvisor incus kata kvm lxc lxd native nspawn openvz podman qemu-tcg runc virtualbox xen" -d 'only this platform, with options if need be; repeatable'
complete -c lastro -n '_shtab_lastro_using doctor' -l testbed -xka "(_lastro_toml)" -d 'where client, DUT and server are; without it, on this machine'
complete -c lastro -n '_shtab_lastro_using doctor' -l json -d 'print it as JSON, with the facts of this host'
complete -c lastro -n '_shtab_lastro_using doctor' -l wait -d 'wait for a campaign on this host to end'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a parts -d 'every platform, attachment, isolation, function … with a line on each'
complete -c lastro -n '_shtab_lastro_using parts' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using parts' -l json -d 'print it as JSON'
complete -c lastro -n '_shtab_lastro_using parts; and test $_shtab_lastro_npos -eq 0' -ka "anomaly attachment function instrument isolation meter platform scenario" -d 'only this kind of part, such as function or functions'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a image -d 'show the root filesystem that every platform runs, built if need be (root)'
complete -c lastro -n '_shtab_lastro_using image' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using image' -l json -d 'print it as JSON'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a clean -d 'remove what a crash left, exactly as the ledger lists it (root)'
complete -c lastro -n '_shtab_lastro_using clean' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using clean' -l dry-run -d 'only list what would be removed'
complete -c lastro -n '_shtab_lastro_using clean' -l wait -d 'wait for a campaign on this host to end'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a completion -d 'print the completion script for bash, zsh or fish'
complete -c lastro -n '_shtab_lastro_using completion' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using completion; and test $_shtab_lastro_npos -eq 0' -ka "bash zsh fish" -d 'bash, zsh or fish'
complete -c lastro -n '_shtab_lastro_using; and test $_shtab_lastro_npos -eq 0' -a man -d 'show the manual page'
complete -c lastro -n '_shtab_lastro_using man' -s h -l help -d 'show this help message and exit'
complete -c lastro -n '_shtab_lastro_using man' -l roff -d 'print the source of the page, on a terminal too'
