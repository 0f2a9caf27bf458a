#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the files of a release on a bare Debian 12, uses each of them, and runs the README's three commands there. It must run as root.
#   bare_system.sh RELEASE ROOT
# RELEASE is the folder that cmake/release.sh made. ROOT is the folder of the bare system. It is made anew from ROOT.base, which debootstrap
# makes once. Exit code 77: something is missing here, and nothing was tested.
set -eu
release=$(cd "$1" && pwd) root=$2
missing() {
  echo "skipped: needs $*"
  exit 77
}
[ "$(id -u)" -eq 0 ] || missing "root"
command -v debootstrap >/dev/null || missing "debootstrap"
if [ ! -e "$root.base" ]; then
  rm -rf "$root.new"
  debootstrap --variant=minbase bookworm "$root.new" >"$root.log" 2>&1 || { tail -n 3 "$root.log"; missing "a mirror of Debian"; }
  mv "$root.new" "$root.base"
fi

# The bare system's /dev is this system's. If the mount were shared, umount would also unmount the folders of this system's /dev.
leave() {
  mount --make-rslave "$root/dev" 2>/dev/null || true
  umount -l "$root/dev" "$root/proc" 2>/dev/null || true
}
trap leave EXIT
trap 'exit 1' HUP INT TERM
leave
rm -rf --one-file-system "$root"
cp -a "$root.base" "$root"
root=$(cd "$root" && pwd)
mount -t proc proc "$root/proc" || missing "the right to mount"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"

# The bare system reaches the network as this one does.
cp /etc/resolv.conf "$root/etc"
mkdir -p "$root/etc/ssl"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/network.crt"
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc"
cp -r "$release" "$root/release"

# The commands up to END run in the bare system.
cat >"$root/release/try.sh" <<'END'
set -eu
export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
[ ! -e /etc/ssl/network.crt ] || export PIP_CERT=/etc/ssl/network.crt
step() { echo "== $*"; }
uses() { # uses WAY OPTION...: builds and runs the project that uses the library in this way
  way=$1
  rm -rf "/root/try/$way"
  shift
  cmake -S "$sources/tests/consumer/project" -B "/root/try/$way" -DLAZYPRUNE_BY="$way" "$@" >/dev/null && cmake --build "/root/try/$way" >/dev/null &&
    "/root/try/$way/consumer"
}
mkdir -p /root/try
cd /root/try
tar xzf /release/lazyprune-*-source.tar.gz
sources=$(echo /root/try/lazyprune-*)
(cd /release && sha256sum --check --quiet SHA256SUMS)
apt-get -q update

step "the Debian package"
apt-get -q install -y --no-install-recommends /release/lazyprune_*.deb
lazyprune inspect
answer=$(lazyprune run -p "the treasure is" -n 4)
[ -n "$answer" ]
apt-get -q install -y --no-install-recommends cmake g++ make pkg-config
uses find_package
uses c_library
uses pkg_config
apt-get -q purge -y lazyprune

step "the tarball"
tar xzf /release/lazyprune-*-Linux.tar.gz -C /opt --one-top-level=lazyprune --strip-components=1
apt-get -q install -y --no-install-recommends libgomp1 libpcre2-8-0 libutf8proc2
/opt/lazyprune/bin/lazyprune inspect
uses find_package -DCMAKE_PREFIX_PATH=/opt/lazyprune

step "the single header"
uses single_header -DLAZYPRUNE_INCLUDE=/release

step "the sources of the package for transformers"
apt-get -q install -y --no-install-recommends python3-venv
python3 -m venv from_sources
from_sources/bin/python -m pip install -q --no-deps "$(ls /release/lazyprune-*.tar.gz | grep -v -e -source -e -Linux)"

step "the wheel"
python3 -m venv python
python/bin/python -m pip install -q /release/lazyprune-*.whl
cd "$sources"
package=$(../python/bin/python -c 'import site; print(site.getsitepackages()[0])')
../python/bin/python tests/transformers/prune.py "$package" || exit 1 # also if the test skips itself

step "sh examples/demo.sh"
sh examples/demo.sh
step "sh tests/run.sh"
sh tests/run.sh
step "build/examples/lazyprune run -m MODEL.gguf"
. cmake/packages.sh
. cmake/models.sh
fetch_smollm2
build/examples/lazyprune run -m "$smollm2" -f examples/smollm2-prompt.txt -p "What is this text about?" -n 16 --compare --policy lazyllm_blocks \
  --stages 21:0.3
END
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root http_proxy="${http_proxy-}" https_proxy="${https_proxy-}" sh /release/try.sh
echo "the release works on a bare system"
