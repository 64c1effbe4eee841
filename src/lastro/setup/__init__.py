"""Install what parts require: Debian packages by apt, gVisor and vegeta by Go, JMeter by Maven.

Each step is a shell script, so `--dry-run` prints exactly what a real run would execute. A directory in this package is
a recipe: a script, and the files that pin the content of all its downloads. Only `quiet` is not a recipe: it contains
two programs that do nothing, in place of those that start services."""
