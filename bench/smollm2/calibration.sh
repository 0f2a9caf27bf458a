# SPDX-License-Identifier: MIT
# A function for the studies of calibrations.
# shellcheck shell=sh

# of_calibration FILE KEY: prints the value of KEY, at the top level of the calibration FILE
of_calibration() {
  sed -n 's/^ "'"$2"'": "\{0,1\}\([^"]*\)"\{0,1\},$/\1/p' "$1"
}
