#!/bin/sh
# Starts no service: for the scripts of packages, it stands in for the program of this name during `lastro setup`.
exit 0
