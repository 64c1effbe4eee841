# vegeta. go.sum pins every module.
version=$(sed -n 's,^require github.com/tsenart/vegeta/v12 ,,p' "$data/go.mod")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM
cd "$data"
CGO_ENABLED=0 GOPATH=$work/go GOCACHE=$work/cache GOFLAGS=-modcacherw go build -mod=readonly -buildvcs=false \
    -o "$work/vegeta" -ldflags "-X main.Version=$version" github.com/tsenart/vegeta/v12
mkdir -p "$prefix/bin"
install -m 755 "$work/vegeta" "$prefix/bin/.vegeta.$$"
mv "$prefix/bin/.vegeta.$$" "$prefix/bin/vegeta"
