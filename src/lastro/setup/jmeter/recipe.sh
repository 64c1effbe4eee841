# Apache JMeter in the layout of its own archive, from the jars of Maven Central. SHA256SUMS pins every jar.
version=$(sed -n 's,^  <version>\(.*\)</version>$,\1,p' "$data/pom.xml")
home=$prefix/lib/lastro/jmeter-$version
new=$home.$$ # of this setup alone: another may run at the same time
work=$(mktemp -d)
trap 'rm -rf "$work" "$new"' EXIT
trap 'exit 143' INT TERM
mvn --batch-mode --quiet --file "$data/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$work/lib"
(cd "$work/lib" && sha256sum --quiet --check "$data/SHA256SUMS")
if [ "$(ls "$work/lib" | wc -l)" -ne "$(wc -l <"$data/SHA256SUMS")" ]; then
    echo "Maven downloaded files that SHA256SUMS does not list" >&2
    exit 1
fi
mkdir -p "$new/lib/ext"
"$python" -m zipfile --extract "$work/lib/ApacheJMeter_config-$version.jar" "$new"
rm -rf "$new/META-INF"
for jar in "$work"/lib/*.jar; do
    case ${jar##*/} in
    "ApacheJMeter-$version.jar") cp "$jar" "$new/bin/ApacheJMeter.jar" ;;
    ApacheJMeter_*) cp "$jar" "$new/lib/ext" ;;
    *) cp "$jar" "$new/lib" ;;
    esac
done
rm -rf "$home" # what was left half-made
mv -T "$new" "$home"
