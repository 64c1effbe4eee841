# Run a command in an instance so that nothing of it is outside until it has ended: bash -c THIS MODE FILE ...
#
#   measure FILE COMMAND...        run it when "go" comes; print its end, and all of its output after "give"
#   serve FILE NEEDLE COMMAND...   run it now; print a line when its output contains NEEDLE; end it, and print all of its
#                                  output, after "give"
#
# FILE.out and FILE.err are in memory. Words before "go" are answered, which shows how long a message takes.

mode=$0 file=$1
shift
end() { # its output is complete when it has ended; what ignores SIGTERM is killed
    kill $! 2>/dev/null
    for _ in {1..60}; do kill -0 $! 2>/dev/null || break; sleep 0.05; done
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
}
give() { cat "$file.out"; cat "$file.err" >&2; rm -f "$file".*; exit "$1"; }
if [ "$mode" = measure ]; then
    echo ready
    while IFS= read -r word && [ "$word" != go ]; do echo "$word"; done
    [ "$word" = go ] || exit 125
    began=$EPOCHREALTIME
    "$@" </dev/null >"$file.out" 2>"$file.err"
    code=$? ended=$EPOCHREALTIME
    echo "ended $began $ended $code"
    read -r word
    give $code
fi
needle=$1
shift
: >"$file.out" >"$file.err"
"$@" </dev/null >"$file.out" 2>"$file.err" &
exec 7<"$file.out" 8<"$file.err"
printed=
more() { # what was printed since the last look; nothing here starts a process
    while IFS= read -r line; do printed+=$line$'\n'; done
    printed+=$line
}
until more <&7 && more <&8 && [[ $printed == *"$needle"* ]]; do
    kill -0 $! 2>/dev/null || { wait $!; give $?; }
    read -r -t 0.01 word
    case $? in
        0) end; give $? ;; # told to end before it was ready
        1) sleep 0.01 ;; # at the end of the input, read does not wait
    esac
done
exec 7<&- 8<&-
echo ready
read -r word # a server that ends by itself does not show until then
end
give $?
