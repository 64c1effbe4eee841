# Click from the user's source tree. It is static: it runs in root filesystems that lack the libraries of this host.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM
cp -R "$source/." "$work"
cd "$work"
[ ! -e Makefile ] || make distclean
./configure --disable-linuxmodule --disable-dynamic-linking
make -j "$(nproc)" LDFLAGS=-static userlevel
strip userlevel/click
userlevel/click --quit --expression 'Idle -> Discard' # it runs; FastClick's --version crashes
mkdir -p "$prefix/bin"
install -m 755 userlevel/click "$prefix/bin/.click.$$"
mv "$prefix/bin/.click.$$" "$prefix/bin/click"
