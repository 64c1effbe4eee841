# runsc of gVisor, at a commit of its branch `go`, which the Go tool can build. go.sum pins every module.
version=$(sed -n 's,^require gvisor.dev/gvisor ,,p' "$data/go.mod")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM
cd "$data"
CGO_ENABLED=0 GOPATH=$work/go GOCACHE=$work/cache GOFLAGS=-modcacherw go build -mod=readonly -buildvcs=false \
    -o "$work/runsc" -ldflags "-X gvisor.dev/gvisor/runsc/version.version=$version" gvisor.dev/gvisor/runsc
mkdir -p "$prefix/bin"
install -m 755 "$work/runsc" "$prefix/bin/.runsc.$$"
mv "$prefix/bin/.runsc.$$" "$prefix/bin/runsc"
