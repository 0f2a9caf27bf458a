# SPDX-License-Identifier: MIT
# The port takes the source tree that it lies in. vcpkg does not see when the sources change: then remove the port, and install it again with
# --no-binarycaching.
# Only headers are installed.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_FIXUP_ELF_RPATH OFF)
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

# A component is defined if its packages are found. A feature that was not asked for must not find them on the system.
vcpkg_check_features(
  OUT_FEATURE_OPTIONS FEATURE_OPTIONS
  INVERTED_FEATURES
    cpu CMAKE_DISABLE_FIND_PACKAGE_xsimd
    files CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json
    unicode CMAKE_DISABLE_FIND_PACKAGE_PkgConfig)
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DLAZYPRUNE_BUILD_TESTS=OFF -DLAZYPRUNE_BUILD_EXAMPLES=OFF -DLAZYPRUNE_BUILD_BENCH=OFF "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
          ${FEATURE_OPTIONS}
  MAYBE_UNUSED_VARIABLES PKG_CONFIG_EXECUTABLE)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/lazyprune)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
