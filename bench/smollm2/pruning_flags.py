#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the pruning flags that a calibration stands for: pruning_flags.py FILE.json [STAGES]. STAGES replaces the file's stages."""
import json
import sys


def flags(calibration, stages):
    probes = "/".join(f"{p['after']}.{p['layer']}.{p['head']}.{p['queries']}.{p['block']}{'.next' if p.get('counts_for') == 'next' else ''}"
                      f"@{p['weight']!r}" for p in calibration["probes"])
    window, block = calibration["window"], calibration["block"]
    following = f",following={calibration['following']}" if "following" in calibration else ""
    return (f"--stages {stages} --scorer calibrated_attention:window={window},block={block},probes={probes}{following} "
            f"--selector blocks:size={block} --keep-first 4 --keep-last {calibration.get('keep_last', window)} --decode kept")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        read = json.load(file)
    print(flags(read, sys.argv[2] if len(sys.argv) > 2 else read["stages"]))
