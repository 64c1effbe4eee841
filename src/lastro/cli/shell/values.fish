# Values that depend on what is here.

set -g _lastro_published '@PUBLISHED@'

function _lastro_toml
    for path in (__fish_complete_path (commandline -ct))
        set -l name (string split -m1 \t -- $path)[1]
        string match -q -r '(\.toml|/)$' -- $name; and echo $name
    end
end

function _lastro_studies
    printf '%s\tpublished study\n' @STUDIES@
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

# The profiles of the study that is on the command line; those of the published studies where there is no file.
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
        printf '%s\n' quick standard paper published emulated
    end
end

# "FACTOR LEVEL" and "--set NAME" for the studies that are on the command line.
function _lastro_choices
    for word in (commandline -opc)[3..-1]
        printf '%s\n' $_lastro_published | awk -v study=$word '@PUBLISHED_AWK@'
        set -l inside $word/*.toml
        for file in $word $inside
            string match -q '*.toml' -- $file; and test -f $file; and awk '@AWK@' $file
        end
    end
end

# FACTOR=LEVEL,LEVEL: a level with a comma stands alone.
function _lastro_only
    set -l begun (string replace -r '^--only=' '' -- (commandline -ct))
    set -l parts (string split -m1 = -- $begun)
    set -l head (string match -r '^.*,' -- $parts[2])
    for line in (_lastro_choices)
        set -l choice (string split -m1 ' ' -- $line)
        if test $choice[1] = --set
            continue
        else if not set -q parts[2]
            echo $choice[1]=
        else if test $choice[1] = $parts[1]
            echo $choice[1]=$choice[2]
            if set -q head[1]; and not string match -q '*,*' -- $choice[2]
                string match -q "*,$choice[2],*" -- ,$head; or echo $choice[1]=$head$choice[2]
            end
        end
    end | sort -u
end

function _lastro_settings
    _lastro_choices | string replace -f -r '^--set (.*)' '$1=' | sort -u
end
