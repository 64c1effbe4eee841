"""Install what parts require: Debian packages by apt, gVisor and vegeta by Go, JMeter by Maven.

Each step is a shell script, so `--dry-run` prints exactly what a real run would execute. A directory in this package is
a recipe: a script, and the files that pin the content of everything that the script downloads. The directory `quiet` is
the exception. It contains two programs that do nothing, which replace those that start services."""
