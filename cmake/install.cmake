# SPDX-License-Identifier: MIT
# cmake --install, find_package(lazyprune), pkg-config, and a tarball by cpack. Headers only, so nothing depends on the machine.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/lazyprune)
set(package_components "")
foreach(target IN LISTS components)
  install(TARGETS ${target} EXPORT ${target}-targets FILE_SET HEADERS)
  install(EXPORT ${target}-targets NAMESPACE lazyprune:: DESTINATION ${package_dir})
  string(REPLACE "lazyprune." "" name ${target})
  list(APPEND package_components ${name})
endforeach()
list(REMOVE_ITEM package_components lazyprune)

configure_package_config_file(cmake/lazyprune-config.cmake.in ${PROJECT_BINARY_DIR}/lazyprune-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lazyprune-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/lazyprune-config.cmake ${PROJECT_BINARY_DIR}/lazyprune-config-version.cmake DESTINATION ${package_dir})

file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_DATADIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
configure_file(cmake/lazyprune.pc.in lazyprune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lazyprune.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)
  include(CPack)
endif()
