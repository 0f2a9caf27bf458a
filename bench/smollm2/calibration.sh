# SPDX-License-Identifier: MIT
# A function for the studies of calibrations.
# shellcheck shell=sh

# of_calibration FILE KEY: prints a value of the calibration
of_calibration() {
  sed -n 's/^ "'"$2"'": "\{0,1\}\([^"]*\)"\{0,1\},$/\1/p' "$1"
}
